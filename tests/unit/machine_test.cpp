// Machines as JSON files.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include <mtf/io/machine.hpp>

namespace {

/// A file of this test alone, removed at the end.
struct TemporaryFile {
  std::string path =
      (std::filesystem::temp_directory_path() / ("mtf_machine_" + std::to_string(std::random_device{}()) + ".json"))
          .string();
  ~TemporaryFile() { std::remove(path.c_str()); }
};

mtf::Machine random_machine(std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto number = [&] { return std::exp(std::uniform_real_distribution<double>(-20, 30)(generator)); };
  mtf::Machine machine;
  machine.float_multiply_adds_per_second = number();
  machine.double_multiply_adds_per_second = number();
  machine.bytes_per_second = number();
  machine.seconds_per_operation = number();
  machine.any_axis = mtf::AxisSpeed("", number(), number());
  for (const char* name : {"rows", "cols", "a name with \"quotes\""})
    machine.axes.push_back(mtf::AxisSpeed(name, number(), number()));
  return machine;
}

void check_equal(const mtf::Machine& a, const mtf::Machine& b) {
  CHECK(a.float_multiply_adds_per_second == b.float_multiply_adds_per_second);
  CHECK(a.double_multiply_adds_per_second == b.double_multiply_adds_per_second);
  CHECK(a.bytes_per_second == b.bytes_per_second);
  CHECK(a.seconds_per_operation == b.seconds_per_operation);
  CHECK(a.axes.size() == b.axes.size());
  for (const char* name : {"rows", "cols", "a name with \"quotes\"", "another"}) {
    CHECK(a.axis(name).text() == b.axis(name).text());
    CHECK(a.axis(name).latency == b.axis(name).latency);
    CHECK(a.axis(name).bytes_per_second == b.axis(name).bytes_per_second);
  }
}

std::string error_of(const nlohmann::json& json) {
  try {
    (void)mtf::machine_of(json, "m");
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("a machine is read as it was written, to the last bit") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const TemporaryFile file;
    const mtf::Machine machine = random_machine(seed);
    mtf::write_machine(file.path, machine, {{"note", "any"}});
    check_equal(mtf::read_machine(file.path), machine);
    CHECK(mtf::read_machine(file.path).axis("another").bytes_per_second == machine.any_axis.bytes_per_second);
  }
}

TEST_CASE("what is wrong with a machine is said in one line that names it") {
  const nlohmann::json good = mtf::json_of(random_machine(1));
  CHECK(error_of(good) == "no error");
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json json = good;
    json[nlohmann::json::json_pointer(pointer)] = value;
    return error_of(json);
  };
  CHECK(with("/bytes_per_second", 0) == "mtf: machine m: \"bytes_per_second\" must be greater than 0, not 0");
  CHECK(with("/seconds_per_operation", 0) == "no error");
  CHECK(with("/seconds_per_operation", -1) == "mtf: machine m: \"seconds_per_operation\" must be at least 0, not -1");
  CHECK(with("/float_multiply_adds_per_second", "fast") ==
        "mtf: machine m: \"float_multiply_adds_per_second\" must be a number, not \"fast\"");
  CHECK(with("/axes/rows/latency", nullptr) == "mtf: machine m: \"axes.rows.latency\" must be a number, not null");
  CHECK(with("/axes/rows", 3) == "mtf: machine m: \"axes.rows\" must be an object, not 3");
  CHECK(with("/axes", 3) == "mtf: machine m: \"axes\" must be an object of axes by name");
  CHECK(with("/latancy", 1) == "mtf: machine m: it has no \"latancy\"; check the spelling");
  CHECK(with("/any_axis/bandwidth", 1) == "mtf: machine m: it has no \"any_axis.bandwidth\"; check the spelling");
  CHECK(error_of(nlohmann::json::array()) == "mtf: machine m: it must be an object, not []");
  for (const auto& [key, value] : good.items()) {
    if (key == "axes") continue;
    nlohmann::json json = good;
    json.erase(key);
    CHECK(error_of(json).find("mtf: machine m: \"" + key + "\" is missing") == 0);
  }
  nlohmann::json crowded = good;
  for (int i = 0; i < mtf::max_axes; ++i) crowded["axes"]["axis" + std::to_string(i)] = crowded["any_axis"];
  CHECK(error_of(crowded) == "mtf: machine m: \"axes\" has more than 32 axes");
  CHECK(with("/axes/a_name_of_more_characters_than_an_axis_of_a_machine_has", good["any_axis"])
            .find("is longer than 48 characters") != std::string::npos);
}

TEST_CASE("a file that is not there or not JSON is named") {
  const TemporaryFile file;
  CHECK_THROWS_WITH((void)mtf::read_machine(file.path),
                    ("mtf: machine \"" + file.path + "\": the file cannot be opened").c_str());
  std::ofstream(file.path) << "{\"bytes_per_second\": ";
  CHECK_THROWS_WITH((void)mtf::read_machine(file.path),
                    ("mtf: machine \"" + file.path + "\": the file is not JSON").c_str());
  CHECK_THROWS_WITH(mtf::write_machine(file.path + "/below", {}),
                    ("mtf: machine \"" + file.path + "/below\": the file cannot be written").c_str());
}
