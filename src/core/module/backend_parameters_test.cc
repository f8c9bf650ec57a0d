/// backend_parameters_test.cc: what may stand behind a backend's name, and what is said of what
/// may not.
#include "weft/core/module/backend_parameters.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"
#include "weft/core/module/backend_module.h"
#include "weft/support/check.h"
#include "weft/support/file.h"

using namespace weft;
using Kind = BackendParameter::Kind;

namespace {

const std::vector<BackendParameter> kKnown = {
    {"no-fusion", "one operator a kernel"},
    {"tree64", ""},
    {"DEVICE", "its number", Kind::kNumber},
    {"FILE", "a machine", Kind::kFile},
    {"order", "", Kind::kValue},
    {"streams", "", Kind::kCount},
};

struct Thrown {
  ErrorCode code = ErrorCode(0);
  std::string text;
  bool says(const std::string& part) const { return text.find(part) != text.npos; }
};
Thrown Refused(const std::string& text, const std::vector<BackendParameter>& known = kKnown) {
  try {
    const BackendParameters taken("npu", text, known);
    return {};
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
}

}  // namespace

TEST_CASE("parameters of a backend by kind") {
  const BackendParameters p("npu", " no-fusion, 3,order=a=b ,streams=2,", kKnown);
  CHECK(p.Has("no-fusion"));
  CHECK_FALSE(p.Has("tree64"));
  CHECK(p.number() == 3);
  CHECK(p.Value("order") == "a=b");
  CHECK(p.Count("streams") == 2);
  CHECK_FALSE(p.file());
  CHECK(p.text() == "no-fusion,3,order=a=b,streams=2");
  CHECK(p.Key() == p.text());
  const BackendParameters none("npu", "", kKnown);
  CHECK_FALSE(none.number());
  CHECK_FALSE(none.Value("order"));
  CHECK_FALSE(none.Count("streams"));
  CHECK(none.text().empty());
}

TEST_CASE("a file among parameters is read once while nothing says that it has changed") {
  const e2e::TempFolder folder;
  const std::string path = folder / "mine.json";
  const auto text = [&] { return BackendParameters("npu", path, kKnown).file()->text; };
  const auto write = [&](const char* what) { std::ofstream(path) << what; };
  const auto set_time = [&](time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  };
  write("one"), set_time(1000);
  CHECK(text() == "one");
  write("two"), set_time(1000);
  CHECK(text() == "one");
  set_time(1001);
  CHECK(text() == "two");
  std::filesystem::remove(path);
  CHECK(Refused(path).code == ErrorCode::kIo);
}

TEST_CASE("a parameter of a backend may be a file, whose content counts") {
  const e2e::TempFolder folder;
  const std::string path = folder / "mine.json";
  WriteFileAtomic(path, "one");
  const BackendParameters first("npu", "no-fusion," + path, kKnown);
  REQUIRE(first.file());
  CHECK(first.file()->path == path);
  CHECK(first.file()->text == "one");
  WriteFileAtomic(path, "two");
  const BackendParameters second("npu", "no-fusion," + path, kKnown);
  CHECK(second.text() == first.text());
  CHECK(second.Key() != first.Key());
  const Thrown missing = Refused("./no/such.json");
  CHECK(missing.code == ErrorCode::kIo);
  CHECK(missing.says("npu"));
  CHECK(missing.says("./no/such.json"));
  CHECK(Refused(path + "," + path).says("twice"));
  // Where no file is expected a path is a word as any other.
  CHECK(Refused(path, {{"tree64", ""}}).code == ErrorCode::kUsage);
}

TEST_CASE("an unknown parameter of a backend is told with what is near, and all that there are") {
  const Thrown near = Refused("tree46");
  CHECK(near.code == ErrorCode::kUsage);
  CHECK(near.says("backend 'npu' has no parameter 'tree46'"));
  CHECK(near.says("did you mean 'tree64'?"));
  CHECK(near.says("no-fusion (one operator a kernel), tree64, DEVICE (its number)"));
  CHECK(near.says("order=TEXT, streams=N"));
  CHECK(Refused("stream=2").says("did you mean 'streams'"));
  CHECK(Refused("anything", {}).says("it takes none"));
  CHECK(Refused("-1").code == ErrorCode::kUsage);
  CHECK(Refused("99999999999999999999").code == ErrorCode::kUsage);
  CHECK(Refused("streams=many").says("expected a whole number"));
  CHECK(Refused("no-fusion=1").code == ErrorCode::kUsage);
  CHECK(Refused("order").code == ErrorCode::kUsage);
  CHECK(Refused("no-fusion,no-fusion").says("twice"));
  CHECK(Refused("1,2").says("twice"));
  CHECK(Refused("streams=1,streams=2").says("twice"));
}

TEST_CASE(
    "a factory that asks for a parameter that its module does not declare is a fault of ours") {
  const BackendParameters p("npu", "", kKnown);
  CHECK_THROWS_AS((void)p.Has("fast"), InternalError);
  CHECK_THROWS_AS((void)p.Has("order"), InternalError);
  CHECK_THROWS_AS((void)p.Value("streams"), InternalError);
  CHECK_THROWS_AS((void)p.Count("order"), InternalError);
}

TEST_CASE("a module may take the parameters of another") {
  const BackendModule own = BackendModule("npu").set_parameters(kKnown);
  CHECK(own.KnownParameters().size() == kKnown.size());
  RegisterBackendModule(BackendModule("inside").set_parameters({{"fast", ""}}));
  const auto around = BackendModule("around").set_parameters_of("inside").KnownParameters();
  REQUIRE(around.size() == 1);
  CHECK(around[0].name == "fast");
  const auto lost = [] { BackendModule("around").set_parameters_of("lost").KnownParameters(); };
  CHECK_THROWS_AS(lost(), UserError);
}
