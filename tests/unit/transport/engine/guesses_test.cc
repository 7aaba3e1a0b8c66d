// Frames that name what their sender should not know are counted by their sender's address.
#include <gtest/gtest.h>

#include <array>
#include <span>

#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"
#include "wire/recovery.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kQpn = 2, kDatagramQpn = 3, kUcQpn = 4;
constexpr uint32_t kExpectedPsn = 200;
constexpr uint32_t kQkey = 0x1234;

test::EndpointOptions host(uint8_t number) {
  test::EndpointOptions options;
  options.gid = Gid::from_ipv4(0x0a000000u + number);
  return options;
}

class Guesses : public ::testing::Test {
 protected:
  Guesses() {
    add(kQpn, QpType::rc);
    add(kDatagramQpn, QpType::ud);
    add(kUcQpn, QpType::uc);
    endpoint_.run(now_);
  }
  void add(uint32_t qpn, QpType type) {
    auto& cq = endpoint_.make_cq();
    auto& qp = endpoint_.make_qp({.qpn = qpn, .type = type, .send_cq = &cq, .recv_cq = &cq});
    qp.connect({.dest_qpn = 9, .sq_psn = 100, .rq_psn = kExpectedPsn, .qkey = kQkey},
               test::make_route(endpoint_.options(), host(2)));
  }
  /// A frame of 10.0.0.`from`.
  void inject(uint8_t from, const wire::Packet& packet, std::span<const std::byte> payload = {}) {
    test::Frame frame(wire::kMaxHeaderBytes + payload.size() + 8);
    frame.resize(test::encode(frame, packet, test::make_route(host(from), endpoint_.options()), payload));
    endpoint_.inject(frame, now_ += Nanos(1'000));
    endpoint_.run(now_);
  }
  static wire::Packet packet(wire::Opcode opcode, uint32_t qpn, uint32_t psn = kExpectedPsn) {
    wire::Packet packet;
    packet.bth.opcode = opcode;
    packet.bth.dest_qpn = qpn;
    packet.bth.psn = Psn(psn);
    return packet;
  }
  /// How often 10.0.0.`from` guessed, as the engine reports it.
  uint64_t counted(uint8_t from, Guess kind) {
    for (const PeerGuesses& row : endpoint_.engine().guesses()) {
      if (row.peer == host(from).gid) return row.counts[static_cast<std::size_t>(kind)];
    }
    return 0;
  }
  uint64_t all() { return endpoint_.engine().counters().guesses.get(); }

  Nanos now_{1'000};
  test::TestEndpoint endpoint_{host(1)};
};

TEST_F(Guesses, OfQueuePairs) {
  for (uint32_t qpn = 5; qpn < 10; ++qpn) inject(7, packet(wire::Opcode::rc_send_only, qpn));
  EXPECT_EQ(counted(7, Guess::qpn), 5u);
  inject(8, packet(wire::Opcode::rc_send_only, kQpn));
  EXPECT_EQ(counted(8, Guess::source), 1u) << "it is another's queue pair";
  EXPECT_EQ(all(), 6u);
  const auto rows = endpoint_.engine().guesses();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].ago, Nanos(1'000));
  EXPECT_EQ(rows[1].ago, Nanos(0));
}

TEST_F(Guesses, OfPsns) {
  inject(2, packet(wire::Opcode::rc_send_only, kQpn, kExpectedPsn + 1'000'000));
  inject(2, packet(wire::Opcode::rc_send_only, kQpn, kExpectedPsn - 1'000'000));
  inject(2, packet(wire::Opcode::rc_ack, kQpn, 5'000'000));
  inject(2, packet(wire::Opcode::rc_read_response_only, kQpn, 5'000'000));
  EXPECT_EQ(counted(2, Guess::psn), 4u);
  // A loss, a repetition and a late ACK look like these.
  inject(2, packet(wire::Opcode::rc_send_only, kQpn, kExpectedPsn + 1'000));
  inject(2, packet(wire::Opcode::rc_send_only, kQpn, kExpectedPsn - 1'000));
  inject(2, packet(wire::Opcode::rc_ack, kQpn, 50));
  EXPECT_EQ(all(), 4u);
}

TEST_F(Guesses, OfKeys) {
  constexpr std::array<std::byte, 8> kPayload{};
  wire::Packet write = packet(wire::Opcode::uc_write_only, kUcQpn);
  write.reth = {.va = 0x1000, .rkey = 0xbad, .length = kPayload.size()};
  for (int i = 0; i < 3; ++i) inject(2, write, kPayload);
  EXPECT_EQ(counted(2, Guess::rkey), 3u);
  write.bth.opcode = wire::Opcode::rc_write_only;
  write.bth.dest_qpn = kQpn;
  // Nobody is accused by what anybody can forge: UC checks no PSN.
  write.bth.psn = Psn(kExpectedPsn + 1);
  inject(2, write, kPayload);
  EXPECT_EQ(counted(2, Guess::rkey), 3u);
  EXPECT_TRUE(endpoint_.events().wrong_keys.empty());
  write.bth.psn = Psn(kExpectedPsn);
  inject(2, write, kPayload);
  EXPECT_EQ(counted(2, Guess::rkey), 4u);
  ASSERT_EQ(endpoint_.events().wrong_keys.size(), 1u);
  EXPECT_EQ(endpoint_.events().wrong_keys[0], std::pair(host(2).gid, kQpn));
  inject(2, write, kPayload);
  EXPECT_EQ(counted(2, Guess::rkey), 4u) << "the connection has ended";
}

TEST_F(Guesses, OfQkeys) {
  wire::Packet datagram = packet(wire::Opcode::ud_send_only, kDatagramQpn);
  datagram.deth = {.qkey = kQkey + 1, .src_qpn = 5};
  inject(7, datagram);
  EXPECT_EQ(counted(7, Guess::qkey), 1u);
  datagram.deth.qkey = kQkey;
  inject(7, datagram);
  EXPECT_EQ(all(), 1u);
}

TEST_F(Guesses, OfEpochs) {
  std::array<std::byte, wire::Hello::kBytes> hello;
  wire::Hello{.epoch = 7, .peer_epoch = 0x12345678, .parking = 100, .answer = false}.store(hello.data());
  inject(2, packet(wire::Opcode::hello, kQpn, 0), hello);
  EXPECT_EQ(counted(2, Guess::epoch), 1u);
}

}  // namespace
}  // namespace uroce::transport
