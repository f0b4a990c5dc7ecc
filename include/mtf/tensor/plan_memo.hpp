// PlanMemo: what a backend has planned before.
#pragma once

#include <cstdint>
#include <utility>

#include <mtf/core/name.hpp>
#include <mtf/tensor/kept_placement.hpp>

namespace mtf {
inline namespace v0 {

/// What a plan is a function of: up to eight numbers, of placements for the most part.
struct PlanKey {
  std::uint64_t words[4];
  std::uint64_t hash;

  constexpr explicit PlanKey(unsigned a, unsigned b = 0, unsigned c = 0, unsigned d = 0, unsigned e = 0, unsigned f = 0,
                             unsigned g = 0, unsigned h = 0)
      : words{a | std::uint64_t{b} << 32, c | std::uint64_t{d} << 32, e | std::uint64_t{f} << 32,
              g | std::uint64_t{h} << 32},
        hash((((words[0] * factor + words[1]) * factor + words[2]) * factor + words[3]) * factor >> 40) {}

  [[nodiscard]] constexpr bool equals(const PlanKey& other) const {
    return words[0] == other.words[0] && words[1] == other.words[1] && words[2] == other.words[2] &&
           words[3] == other.words[3];
  }

 private:
  static constexpr std::uint64_t factor = 0x9E3779B97F4A7C15ULL;
};

/// Plans by what they are functions of. Every layer and every step of a program asks for the same ones; in constant
/// expressions nothing else keeps a model of many layers within the compiler's limits.
class PlanMemo {
 public:
  constexpr PlanMemo() = default;
  PlanMemo(const PlanMemo&) = delete;
  PlanMemo& operator=(const PlanMemo&) = delete;
  constexpr ~PlanMemo() {
    forget(recent_);
    forget(old_);
  }

  /// The `Plan` of a key, made by `plan()` where it was not asked for before. Each type of plan has its own keys. Valid
  /// until at least `capacity` others have been made: a program whose shapes never recur forgets the old ones.
  template <class Plan, class F>
  [[nodiscard]] constexpr const Plan& get(const PlanKey& key, const F& plan) {
    for (Entry* entry = buckets_[key.hash % buckets]; entry != nullptr; entry = entry->next) {
      if (entry->kind == kind_of<Plan> && entry->key.equals(key)) return static_cast<const EntryOf<Plan>*>(entry)->plan;
    }
    auto* entry = new EntryOf<Plan>(key, plan());
    add(entry);
    return entry->plan;
  }

  /// Plans that are kept at most; twice as many for a moment.
  static constexpr int capacity = 2048;

 private:
  /// Not an address: with sanitizers g++ compares addresses of templates in no constant expression.
  template <class Plan>
  [[nodiscard]] static constexpr std::uint64_t hash_type() {
    return hash_text(__PRETTY_FUNCTION__);
  }
  template <class Plan>
  static constexpr std::uint64_t kind_of = hash_type<Plan>();

  struct Entry {
    PlanKey key;
    std::uint64_t kind;
    Entry* next = nullptr;  ///< of those with a similar hash
    Entry* older = nullptr;

    constexpr Entry(const PlanKey& k, std::uint64_t which) : key(k), kind(which) {}
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    constexpr virtual ~Entry() {}
  };
  template <class Plan>
  struct EntryOf final : Entry {
    Plan plan;
    constexpr EntryOf(const PlanKey& k, Plan&& made) : Entry(k, kind_of<Plan>), plan(std::move(made)) {}
    constexpr ~EntryOf() override {}
  };

  constexpr void add(Entry* entry) {
    if (++count_ > capacity) {
      forget(std::exchange(old_, std::exchange(recent_, nullptr)));
      for (Entry*& bucket : buckets_) bucket = nullptr;
      count_ = 1;
    }
    Entry*& bucket = buckets_[entry->key.hash % buckets];
    entry->next = bucket;
    bucket = entry;
    entry->older = recent_;
    recent_ = entry;
  }
  static constexpr void forget(Entry* entry) {
    while (entry != nullptr) delete std::exchange(entry, entry->older);
  }

  static constexpr std::uint64_t buckets = 512;
  Entry* buckets_[buckets]{};
  Entry* recent_ = nullptr;
  Entry* old_ = nullptr;
  int count_ = 0;
};

}  // namespace v0
}  // namespace mtf
