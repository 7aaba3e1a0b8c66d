// Two engines joined by a lossless wire, for UC and UD.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/test_endpoint.h"
#include "transport/engine/engine.h"
#include "wire/packet.h"

namespace uroce::transport {

using test::ConnectOptions;
using test::EndpointOptions;
using test::TestCq;
using test::TestEndpoint;
using test::TestQp;

inline constexpr AccessFlags kWriteAccess = AccessFlags(Access::local_write) | Access::remote_write;

inline EndpointOptions host(uint8_t number) {
  EndpointOptions options;
  options.gid = Gid::from_ipv4(0x0a000000u + number);
  options.mac = {{2, 0, 0, 0, 0, number}};
  return options;
}

class TwoHosts : public ::testing::Test {
 protected:
  // Moves frames until both sides rest, as a switch and a port would: groups go to everybody else, loopback home.
  void settle() {
    for (int rounds = 0; rounds < 10'000; ++rounds) {
      now_ += Nanos(1000);
      std::size_t moved = 0;
      for (TestEndpoint* from : {&left_, &right_}) {
        from->run(now_);
        TestEndpoint* to = from == &left_ ? &right_ : &left_;
        for (const auto& frame : from->sink().take()) {
          (frame.loopback ? from : to)->inject(frame.bytes, now_);
          ++moved;
          ++(frame.loopback ? looped_ : crossed_);
        }
      }
      if (moved == 0) return;
    }
    FAIL() << "no rest";
  }
  TestQp& make_qp(TestEndpoint& endpoint, uint32_t qpn, QpType type, TestCq*& cq) {
    cq = &endpoint.make_cq();
    return endpoint.make_qp({.qpn = qpn, .type = type, .send_cq = cq, .recv_cq = cq});
  }
  static uint64_t drops(TestEndpoint& endpoint, wire::Drop drop) {
    return endpoint.engine().counters().drops[static_cast<std::size_t>(drop)].get();
  }

  TestEndpoint left_{host(1)};
  TestEndpoint right_{host(2)};
  Nanos now_{0};
  std::size_t crossed_ = 0;
  std::size_t looped_ = 0;
};

}  // namespace uroce::transport
