/// report_test.cc: what `weft doctor` is told of devices, on the driver of failing_driver.h.
#include "backends/cuda/report.h"

#include <doctest/doctest.h>

#include "backends/cuda/doubles/failing_driver.h"

namespace {

using namespace weft::cuda;
using weft::e2e::FailingDriver;
using weft::e2e::FailingDriverTable;

}  // namespace

TEST_CASE("what doctor says of devices") {
  const DriverApi& api = *FailingDriverTable();
  auto rows = ReportDevices(api);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].what == "driver");
  CHECK(rows[0].found == "CUDA 12.4");
  CHECK(rows[1].what == "device 0");
  CHECK(rows[1].found == "emulated, sm_90, 1.00 GiB, 2 multiprocessors");
  CHECK(rows[1].ok);

  FailingDriver& d = FailingDriver::Get();
  d.failure = {"DeviceTotalMem", d.calls["DeviceTotalMem"], 2, false};
  rows = ReportDevices(api);
  CHECK(rows[0].ok);
  CHECK(!rows[1].ok);
  CHECK(rows[1].found == "out of memory (CUresult 2)");
  d.failure = {"DeviceGetCount", d.calls["DeviceGetCount"], 2, false};
  rows = ReportDevices(api);
  CHECK(rows.back().what == "devices");
  CHECK(!rows.back().ok);
  d.failure = {};
  d.devices = 0;
  CHECK(ReportDevices(api).back().found == "the driver has none");
  d.devices = 1;

  DriverApi none;
  none.error = "no driver (libcuda.so.1: cannot open)";
  rows = ReportDevices(none);
  REQUIRE(rows.size() == 1);
  CHECK(!rows[0].ok);
  CHECK(rows[0].found == none.error);
}
