// A Machine as a JSON file: what bench/calibrate writes and predictions read.
#pragma once

#include <cmath>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mtf/io/file.hpp>
#include <mtf/io/utf8.hpp>
#include <mtf/plan/time.hpp>

namespace mtf {
inline namespace v0 {

namespace detail {

[[noreturn]] MTF_COLD inline void raise_machine(const std::string& source, const std::string& what) {
  throw std::runtime_error("mtf: machine " + source + ": " + on_one_line(valid_utf8(what)));
}

/// A member that must be a finite number greater than 0, or at least 0 if it may be zero.
[[nodiscard]] inline double machine_number(const nlohmann::json& object, const char* key, const std::string& place,
                                           bool may_be_zero, const std::string& source) {
  const std::string name = "\"" + place + key + "\"";
  const auto member = object.find(key);
  if (member == object.end()) raise_machine(source, name + " is missing; bench/calibrate writes it");
  if (!member->is_number()) raise_machine(source, name + " must be a number, not " + member->dump());
  const double value = member->get<double>();
  if (!std::isfinite(value) || value < 0 || (value == 0 && !may_be_zero)) {
    raise_machine(source,
                  name + " must be " + (may_be_zero ? "at least 0" : "greater than 0") + ", not " + member->dump());
  }
  return value;
}

inline void require_known_keys(const nlohmann::json& object, const std::string& place,
                               std::initializer_list<std::string_view> known, const std::string& source) {
  if (!object.is_object())
    raise_machine(source, (place.empty() ? "it" : "\"" + place + "\"") + " must be an object, not " +
                              object.dump().substr(0, 40));
  for (const auto& [key, value] : object.items()) {
    bool found = false;
    for (const std::string_view name : known) found = found || key == name;
    if (!found)
      raise_machine(source, "it has no \"" + (place.empty() ? key : place + "." + key) + "\"; check the spelling");
  }
}

[[nodiscard]] inline AxisSpeed axis_speed_of(const nlohmann::json& object, const std::string& name,
                                             const std::string& place, const std::string& source) {
  require_known_keys(object, place, {"latency", "bytes_per_second"}, source);
  return {name, machine_number(object, "latency", place + ".", true, source),
          machine_number(object, "bytes_per_second", place + ".", false, source)};
}
[[nodiscard]] inline nlohmann::json json_of(const AxisSpeed& speed) {
  return {{"latency", speed.latency}, {"bytes_per_second", speed.bytes_per_second}};
}

}  // namespace detail

/// A machine as JSON: rates per second, times in seconds, axes by name.
[[nodiscard]] inline nlohmann::json json_of(const Machine& machine) {
  nlohmann::json json = {{"float_multiply_adds_per_second", machine.float_multiply_adds_per_second},
                         {"double_multiply_adds_per_second", machine.double_multiply_adds_per_second},
                         {"bytes_per_second", machine.bytes_per_second},
                         {"seconds_per_operation", machine.seconds_per_operation},
                         {"any_axis", detail::json_of(machine.any_axis)},
                         {"axes", nlohmann::json::object()}};
  for (const AxisSpeed& speed : machine.axes) json["axes"][detail::valid_utf8(speed.text())] = detail::json_of(speed);
  return json;
}

/// The machine that `json` describes; `source` says in errors where it came from. Throws std::runtime_error, with one
/// line, if a number is missing or makes no sense, or if there is something of another name. A member "calibration"
/// says how the numbers were found and is not read.
[[nodiscard]] inline Machine machine_of(const nlohmann::json& json, const std::string& source) {
  detail::require_known_keys(json, "",
                             {"float_multiply_adds_per_second", "double_multiply_adds_per_second", "bytes_per_second",
                              "seconds_per_operation", "any_axis", "axes", "calibration"},
                             source);
  Machine machine;
  machine.float_multiply_adds_per_second =
      detail::machine_number(json, "float_multiply_adds_per_second", "", false, source);
  machine.double_multiply_adds_per_second =
      detail::machine_number(json, "double_multiply_adds_per_second", "", false, source);
  machine.bytes_per_second = detail::machine_number(json, "bytes_per_second", "", false, source);
  machine.seconds_per_operation = detail::machine_number(json, "seconds_per_operation", "", true, source);
  if (!json.contains("any_axis"))
    detail::raise_machine(source,
                          "\"any_axis\" is missing: latency and bytes_per_second of axes that \"axes\" does not name");
  machine.any_axis = detail::axis_speed_of(json["any_axis"], "", "any_axis", source);
  if (!json.contains("axes")) return machine;
  if (!json["axes"].is_object()) detail::raise_machine(source, "\"axes\" must be an object of axes by name");
  for (const auto& [name, speed] : json["axes"].items()) {
    if (machine.axes.full())
      detail::raise_machine(source, "\"axes\" has more than " + std::to_string(max_axes) + " axes");
    if (name.size() > static_cast<std::size_t>(decltype(AxisSpeed::name)::capacity)) {
      detail::raise_machine(source, "the name of axis \"" + name + "\" is longer than " +
                                        std::to_string(decltype(AxisSpeed::name)::capacity) + " characters");
    }
    machine.axes.push_back(detail::axis_speed_of(speed, name, "axes." + name, source));
  }
  return machine;
}

/// Reads a machine from a file. Throws std::runtime_error, with one line that names the file, as machine_of does or if
/// the file cannot be read or is not JSON.
[[nodiscard]] inline Machine read_machine(const std::string& path) {
  const std::string source = "\"" + path + "\"";
  std::string text;
  try {
    text = read_file(path);
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(std::string("mtf: machine: ") + error.what());
  }
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded()) detail::raise_machine(source, "the file is not JSON");
  return machine_of(json, source);
}

/// Writes a machine to a file, beside it under "calibration" how it was found. Throws std::runtime_error if the file
/// cannot be written.
inline void write_machine(const std::string& path, const Machine& machine, const nlohmann::json& calibration = {}) {
  nlohmann::json json = json_of(machine);
  if (!calibration.is_null()) json["calibration"] = detail::with_valid_texts(calibration);
  errno = 0;
  std::ofstream file(path);
  file << json.dump(2) << '\n';
  file.close();
  if (!file)
    detail::raise_machine("\"" + path + "\"",
                          std::string("the file cannot be written: ") + std::strerror(errno != 0 ? errno : EIO));
}

}  // namespace v0
}  // namespace mtf
