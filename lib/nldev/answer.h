// NETLINK_RDMA as the kernel's nldev.c answers it, for devices that the kernel does not know: the messages of `rdma` of
// iproute2, and of others that ask what RDMA devices there are.
#pragma once

#include <cstdint>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "nldev/attributes.h"
#include "nldev/entries.h"
#include "nldev/kernel_counters.h"

namespace uroce::nldev {

/// A device with one port. Its place in the list is the kernel's index.
struct Device {
  std::string name{};
  std::string firmware{};
  uint64_t guid = 0;
  uint64_t capabilities = 0;
  uint64_t port_capabilities = 0;
  uint8_t port_state = 0;
  uint8_t physical_state = 0;
  std::string interface{};  ///< of the kernel; empty: none
  uint32_t interface_index = 0;
};

/// Where answers come from. Errors are errno values.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::vector<Device> devices() = 0;
  virtual std::expected<std::vector<Object>, int> objects(Table table, const Device& device) = 0;
  /// In the kernel's names.
  virtual std::expected<Counters, int> counters(const Device& device) = 0;
};

/// Most bytes of one packet: libmnl's programs read with a buffer of a page.
inline constexpr std::size_t kMostBytes = 4096;

/// The packets that answer one packet of requests.
std::vector<Bytes> answer(std::span<const std::byte> packet, Source& source);

}  // namespace uroce::nldev
