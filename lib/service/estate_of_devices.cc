#include "service/estate_of_devices.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "service/device_operations.h"
#include "service/device_rows.h"

namespace uroce::service {
namespace {

Result<control::Device*> device_of(const Devices& devices, const std::string& name) {
  const auto found = std::ranges::find_if(devices, [&](const auto& one) { return one->config().name == name; });
  if (found != devices.end()) return found->get();
  return fail(ENODEV, fmt::format("there is no device '{}'", name.substr(0, 64)));
}

void write_numbers(control::Device& device, EstateWriter& estate) {
  control::DeviceNumbers numbers;
  {
    const auto lock = device.runner().lock();
    numbers = device.objects().numbers();
  }
  estate.add(KeysRow{.device = device.config().name,
                     .permutation = numbers.keys.permutation,
                     .uses = std::move(numbers.keys.uses),
                     .free = std::move(numbers.keys.free),
                     .last_flow = numbers.last_flow,
                     .engines = static_cast<uint32_t>(numbers.qpns.size())});
  for (auto& engine : numbers.qpns) {
    estate.add(QpnsRow{.permutation = engine.permutation,
                       .fresh = engine.fresh,
                       .uses = std::move(engine.uses),
                       .free = std::move(engine.free)});
  }
}

Result<void> read_numbers(const Devices& devices, EstateReader& estate) {
  auto row = estate.take<KeysRow>();
  if (!row) return std::unexpected(row.error());
  const auto device = device_of(devices, row->device);
  if (!device) return std::unexpected(device.error());
  control::DeviceNumbers numbers{
      .keys = {.permutation = row->permutation, .uses = std::move(row->uses), .free = std::move(row->free)},
      .qpns = {},
      .last_flow = row->last_flow};
  for (uint32_t engine = 0; engine < row->engines; ++engine) {
    auto next = estate.take<QpnsRow>();
    if (!next) return std::unexpected(next.error());
    numbers.qpns.push_back({.permutation = next->permutation,
                            .fresh = next->fresh,
                            .uses = std::move(next->uses),
                            .free = std::move(next->free)});
  }
  const auto lock = (*device)->runner().lock();
  if ((*device)->objects().go_on_with(numbers)) return {};
  return fail(EINVAL, fmt::format("the estate's keys and queue pair numbers are none of {}", row->device));
}

void write_addresses(control::Device& device, EstateWriter& estate) {
  AddressesRow row{.device = device.config().name, .former = {}};
  for (const Gid& gid : device.former_gids()) row.former.push_back(gid.bytes);
  estate.add(row);
}

Result<void> read_addresses(const Devices& devices, EstateReader& estate) {
  const auto row = estate.take<AddressesRow>();
  if (!row) return std::unexpected(row.error());
  const auto device = device_of(devices, row->device);
  if (!device) return std::unexpected(device.error());
  std::vector<Gid> former;
  for (const auto& bytes : row->former) former.push_back(Gid{bytes});
  return (*device)->adopt_gids(former);
}

Result<void> read_counters(EstateReader& estate, EarlierCounters& counters) {
  const auto row = estate.take<CountersRow>();
  if (!row) return std::unexpected(row.error());
  counters[row->device] = {row->values.begin(), row->values.end()};
  return {};
}

}  // namespace

void bequeath_numbers(const Devices& devices, EstateWriter& estate) {
  for (const auto& device : devices) write_numbers(*device, estate);
}

void bequeath_devices(const ServerView& server, EstateWriter& estate) {
  for (const auto& device : server.devices()) {
    write_addresses(*device, estate);
    estate.add(CountersRow{.device = device->config().name, .values = port_counters_of(server, *device)});
  }
}

Result<void> inherit_devices(const Devices& devices, EstateReader& estate, EarlierCounters& counters) {
  while (!estate.at_end()) {
    const auto kind = estate.next();
    if (!kind) return std::unexpected(kind.error());
    Result<void> read;
    switch (*kind) {
      case Row::addresses: read = read_addresses(devices, estate); break;
      case Row::keys: read = read_numbers(devices, estate); break;
      case Row::counters: read = read_counters(estate, counters); break;
      default: return {};
    }
    if (!read) return read;
  }
  return {};
}

}  // namespace uroce::service
