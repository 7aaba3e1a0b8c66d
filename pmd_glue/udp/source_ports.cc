#include "pmd_glue/udp/source_ports.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wire/headers.h"

namespace uroce::glue::udp {

namespace {
/// Ports that are tried for a flow.
constexpr unsigned kTries = 8;
}  // namespace

SourcePorts::SourcePorts(const std::string& interface, const Socket& receiver, std::vector<Socket> inherited) {
  ways_.fill({.fd = receiver.fd(), .port = wire::kUdpPort});
  std::array<bool, kSourcePorts> own{};
  for (Socket& socket : inherited) {
    const uint16_t port = socket.port();
    if (!std::exchange(own[flow_of(port)], true)) add(std::move(socket), flow_of(port), port);
  }
  for (std::size_t flow = 0; flow < kSourcePorts; ++flow) own[flow] = own[flow] || bind_one(interface, flow);
  for (std::size_t flow = 0; flow < kSourcePorts && !sockets_.empty(); ++flow) {
    const std::size_t other = flow % sockets_.size();
    if (!own[flow]) ways_[flow] = {.fd = sockets_[other].fd(), .port = ports_[other]};
  }
}

void SourcePorts::add(Socket socket, std::size_t flow, uint16_t port) {
  ways_[flow] = {.fd = socket.fd(), .port = port};
  sockets_.push_back(std::move(socket));
  ports_.push_back(port);
}

bool SourcePorts::bind_one(const std::string& interface, std::size_t flow) {
  unsigned tries = 0;
  for (uint32_t port = kFirstSourcePort; port <= UINT16_MAX && tries < kTries; ++port) {
    if (flow_of(static_cast<uint16_t>(port)) != flow) continue;
    ++tries;
    auto socket = Socket::open_to_send(interface, static_cast<uint16_t>(port));
    if (!socket) continue;
    add(std::move(*socket), flow, static_cast<uint16_t>(port));
    return true;
  }
  return false;
}

std::string SourcePorts::description() const {
  if (ports_.empty()) return fmt::format("source port {} alone, because others are in use", wire::kUdpPort);
  const auto [least, most] = std::ranges::minmax(ports_);
  return fmt::format("{} source ports, {} to {}", ports_.size(), least, most);
}

Result<std::vector<Socket>> SourcePorts::open_again(const std::string& interface) const {
  std::vector<Socket> fresh;
  for (const uint16_t port : ports_) {
    auto socket = Socket::open_to_send(interface, port);
    if (!socket) return std::unexpected(socket.error());
    fresh.push_back(std::move(*socket));
  }
  return fresh;
}

Result<void> SourcePorts::replace_by(std::vector<Socket> fresh, const std::string& interface) {
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    if (auto ok = sockets_[i].replace_by(std::move(fresh[i]), interface); !ok) return ok;
  }
  return {};
}

}  // namespace uroce::glue::udp
