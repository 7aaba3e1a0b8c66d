#include "uroce/fetch.h"

#include <uroce/daemon.h>
#include <cerrno>

namespace uroce::cli {

namespace {

template <class Row>
Result<std::vector<Row>> not_listed() {
  return fail(EOPNOTSUPP, "the daemon does not list its objects yet");
}

}  // namespace

Result<std::vector<DeviceRow>> fetch_devices(const Source& source) {
  auto devices = daemon_devices({.socket = source.socket});
  if (!devices || source.device.empty()) return devices;
  std::erase_if(*devices, [&](const DeviceRow& one) { return one.name != source.device; });
  if (devices->empty()) return fail(ENODEV, "there is no device '" + source.device + "': uroce devices lists them");
  return devices;
}

Result<std::vector<QpRow>> fetch_qps(const Source&) { return not_listed<QpRow>(); }
Result<std::vector<MrRow>> fetch_mrs(const Source&) { return not_listed<MrRow>(); }
Result<std::vector<CqRow>> fetch_cqs(const Source&) { return not_listed<CqRow>(); }
Result<std::vector<ClientRow>> fetch_clients(const Source&) { return not_listed<ClientRow>(); }
Result<std::vector<CounterRow>> fetch_counters(const Source&) { return not_listed<CounterRow>(); }

}  // namespace uroce::cli
