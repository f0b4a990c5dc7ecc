// Machines as JSON files.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>

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
                    ("mtf: machine: cannot read \"" + file.path + "\": No such file or directory").c_str());
  CHECK_THROWS_WITH((void)mtf::read_machine("/tmp"), "mtf: machine: cannot read \"/tmp\": it is a directory");
  std::ofstream(file.path) << "{\"bytes_per_second\": ";
  CHECK_THROWS_WITH((void)mtf::read_machine(file.path),
                    ("mtf: machine \"" + file.path + "\": the file is not JSON").c_str());
  CHECK_THROWS_WITH(mtf::write_machine(file.path + "/below", {}),
                    ("mtf: machine \"" + file.path + "/below\": the file cannot be written: Not a directory").c_str());
}

TEST_CASE("names of axes that are not UTF-8 are written as what is") {
  const TemporaryFile file;
  mtf::Machine machine = random_machine(3);
  machine.axes.push_back(mtf::AxisSpeed("a\xff\n", 1e-6, 1e9));
  mtf::write_machine(file.path, machine, {{"note", "\xc3("}});
  const mtf::Machine read = mtf::read_machine(file.path);
  REQUIRE(read.axes.size() == machine.axes.size());
  CHECK(read.axis("a\xef\xbf\xbd\n").bytes_per_second == 1e9);
  // What is wrong with such a name is one line.
  nlohmann::json json = mtf::json_of(machine);
  json["odd\nname"] = 1;
  CHECK(error_of(json) == "mtf: machine m: it has no \"odd\\nname\"; check the spelling");
}

TEST_CASE("UTF-8 stays as it is, and every byte that is none is replaced") {
  const auto is_valid = [](const std::string& text) {
    try {
      return !nlohmann::json(text).dump().empty();
    } catch (const nlohmann::json::type_error&) {
      return false;
    }
  };
  std::mt19937_64 random(7);
  const std::string pieces[]{"a",
                             "\n",
                             "\xc3\xa9",
                             "\xe2\x82\xac",
                             "\xf0\x9f\x98\x80",
                             "\xed\x9f\xbf",
                             "\xf4\x8f\xbf\xbf",
                             std::string(1, '\0')};
  int valid = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (int n = static_cast<int>(random() % 6); n > 0; --n) text += pieces[random() % std::size(pieces)];
    CHECK(mtf::detail::valid_utf8(text) == text);
    for (int n = static_cast<int>(random() % 4); n > 0 && !text.empty(); --n)
      text[random() % text.size()] =
          static_cast<char>(random() % 3 == 0 ? 0xe0 + random() % 32 : 0x80 + random() % 128);
    const std::string mended = mtf::detail::valid_utf8(text);
    CHECK(is_valid(mended));
    CHECK((mended == text) == is_valid(text));
    valid += is_valid(text) ? 1 : 0;
  }
  CHECK(valid > 4000);
  CHECK(valid < 16'000);
}

TEST_CASE("what is wrong with a file is known before it is read or written") {
  const TemporaryFile file;
  const auto refuses = [](const auto& call, const std::string& why) { CHECK_THROWS_WITH(call(), why.c_str()); };
  const auto read = [&] { return mtf::read_file(file.path); };
  const auto write = [&] { mtf::require_writable(file.path); };
  const std::string in = "cannot read \"" + file.path + "\": ";
  const std::string out = "cannot write \"" + file.path + "\": ";
  refuses(read, in + "No such file or directory");
  write();
  refuses(read, in + "No such file or directory");  // it was not left behind
  std::ofstream(file.path) << "some bytes" << '\0' << "\n";
  CHECK(read() == std::string("some bytes\0\n", 12));
  write();
  CHECK(read().size() == 12);
  std::remove(file.path.c_str());
  REQUIRE(mkfifo(file.path.c_str(), 0600) == 0);
  refuses(read, in + "it is a pipe that nobody writes to; start the writer first");
  refuses(write, out + "it is a pipe that nobody reads");
  {
    const std::string long_text(200'000, 'x');  // more than a pipe holds: the writer waits for the reader
    const int idle = open(file.path.c_str(), O_RDONLY | O_NONBLOCK);  // a reader, so that the writer need not wait
    const int pipe = open(file.path.c_str(), O_WRONLY);
    REQUIRE(pipe >= 0);
    std::thread writer([&] {
      for (std::size_t done = 0; done < long_text.size();)
        done += static_cast<std::size_t>(::write(pipe, long_text.data() + done, long_text.size() - done));
      close(pipe);
    });
    const std::string text = read();
    writer.join();
    close(idle);
    CHECK(text == long_text);
  }
  std::remove(file.path.c_str());
  REQUIRE(mkdir(file.path.c_str(), 0700) == 0);
  refuses(read, in + "it is a directory");
  refuses(write, out + "Is a directory");
  REQUIRE(rmdir(file.path.c_str()) == 0);
  CHECK_THROWS_WITH((void)mtf::read_file("/dev/null"), "cannot read \"/dev/null\": it is neither a file nor a pipe");
  CHECK_THROWS_WITH(mtf::require_writable("/no such folder/x"),
                    "cannot write \"/no such folder/x\": No such file or directory");
}
