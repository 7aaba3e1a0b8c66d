// Peers of an Answerer, whose requests say what a test wants them to say. All live on the first device of a World; the
// answerer is on the second, behind a manager.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/in_process.h"
#include "client/in_process_cm.h"
#include "cm/gsi.h"
#include "cm/manager.h"
#include "cm/rdma_header.h"
#include "ping/answerer.h"
#include "tests/support/cm_driver.h"
#include "tests/unit/client/endpoints.h"

namespace uroce::ping::test {

using uroce::test::must;
using uroce::test::Side;
using uroce::test::World;

inline Gid address(uint32_t n) { return Gid::from_ipv4(0x0a000100 + n); }

/// A connection manager without the manager above it.
class Strangers final : public uroce::test::CmDriver<Strangers> {
 public:
  explicit Strangers(const std::shared_ptr<control::Device>& device)
      : CmDriver({.seed = 7}), gsi_(must(cm::Gsi::open(device))) {}

  struct Request {
    Gid from{};                   ///< one of the device's addresses
    std::optional<Gid> claims{};  ///< the address that the private data name; `from` without it
    Gid to = World::gid(1);
    uint32_t qpn = 0;  ///< 0: none that exists
  };
  /// The id of the connection.
  uint32_t ask(const Request& request) {
    cm::CmRequest req{.service_id = cm::rdma_service_id(static_cast<uint16_t>(PortSpace::tcp), kPort),
                      .path = {.sgid = request.from, .dgid = request.to},
                      .qpn = request.qpn != 0 ? request.qpn : next_qpn_++};
    req.private_data.resize(cm::RdmaHeader::kBytes);
    cm::RdmaHeader{.source = request.claims.value_or(request.from), .destination = request.to}.store(
        req.private_data.data());
    return must(connect(req, cm::steady_now()));
  }
  void turn() {
    gsi_->take([this](const Gid& source, const Gid& destination,
                      std::span<const std::byte> mad) { on_mad(source, destination, mad, cm::steady_now()); },
               cm::Gsi::Then::comes_back);
    poll(cm::steady_now());
    gsi_->wake_engine();
  }
  void ready(uint32_t id) { must(CmDriver::ready(id, {}, cm::steady_now())); }
  /// The newest event of the connection.
  const cm::CmMessage* event(uint32_t id) const {
    const auto found = events_.find(id);
    return found != events_.end() ? &found->second : nullptr;
  }

  void send(const cm::CmPath& path, const cm::Mad& mad) { gsi_->send(path, mad, cm::steady_now()); }
  void on_event(const cm::CmMessage& message) { events_[message.id] = message; }

 private:
  std::unique_ptr<cm::Gsi> gsi_;
  std::map<uint32_t, cm::CmMessage> events_;
  uint32_t next_qpn_ = 100;
};

}  // namespace uroce::ping::test
