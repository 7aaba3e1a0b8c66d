// A program's connection manager in a test, with one channel.
#pragma once

#include <uroce/cm.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <sys/ioctl.h>

#include "tests/unit/client/endpoints.h"

namespace uroce::service {

using test::must;
using namespace std::chrono_literals;

inline constexpr auto kCmPatience = 60s;

/// A program's connection manager, its channel, and events of both.
struct CmProgram {
  explicit CmProgram(ConnectionManager opened) : manager(std::move(opened)), channel(must(manager.create_channel())) {}
  CmId id(QpType type = QpType::rc) {
    return must(manager.create_id(channel, type == QpType::ud ? PortSpace::udp : PortSpace::tcp, type));
  }
  CmEvent expect(CmEventType type) {
    auto event = channel.wait(kCmPatience);
    if (!event) throw std::runtime_error("no event came; expected " + std::to_string(static_cast<int>(type)));
    EXPECT_EQ(event->type, type) << "status " << event->status;
    return *event;
  }
  CmId listening(const CmAddress& at, int backlog = 8, QpType type = QpType::rc) {
    CmId made = id(type);
    must(made.bind(at));
    must(made.listen(backlog));
    return made;
  }
  CmId resolved(const CmAddress& remote, QpType type = QpType::rc) {
    CmId made = id(type);
    must(made.resolve_addr(std::nullopt, remote, kCmPatience));
    expect(CmEventType::addr_resolved);
    must(made.resolve_route(kCmPatience));
    expect(CmEventType::route_resolved);
    return made;
  }
  /// Bytes in the channel's pipe.
  int waiting() const {
    int bytes = 0;
    EXPECT_EQ(ioctl(channel.fd(), FIONREAD, &bytes), 0);
    return bytes;
  }
  ConnectionManager manager;
  CmChannel channel;
};

}  // namespace uroce::service
