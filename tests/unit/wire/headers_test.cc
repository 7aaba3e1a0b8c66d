#include "wire/headers.h"

#include <gtest/gtest.h>

#include "tests/unit/wire/samples.h"

namespace uroce::wire {
namespace {

using test::Bytes;
using test::from_hex;

/// Loads the header from `hex` and stores it again.
template <class Header>
Bytes round_trip(const Bytes& in) {
  Bytes out(Header::kBytes);
  Header::load(in.data()).store(out.data());
  return out;
}

TEST(Headers, EveryBitOfABthComesBack) {
  for (std::size_t bit = 0; bit < Bth::kBytes * 8; ++bit) {
    Bytes in(Bth::kBytes);
    in[bit / 8] = static_cast<std::byte>(0x80u >> bit % 8);
    EXPECT_EQ(round_trip<Bth>(in), in) << "bit " << bit;
  }
}

TEST(Headers, BthFieldsStandWhereTheSpecificationPutsThem) {
  const Bth h = Bth::load(from_hex("0ae0ffff80123456807fffff").data());
  EXPECT_EQ(h.opcode, Opcode::rc_write_only);
  EXPECT_TRUE(h.solicited);
  EXPECT_TRUE(h.migrated);
  EXPECT_EQ(h.pad, 2);
  EXPECT_EQ(h.version, 0);
  EXPECT_EQ(h.pkey, 0xffff);
  EXPECT_TRUE(h.fecn);
  EXPECT_FALSE(h.becn);
  EXPECT_EQ(h.dest_qpn, 0x123456u);
  EXPECT_TRUE(h.ack_request);
  EXPECT_EQ(h.psn, Psn(0x7fffff));
}

TEST(Headers, ExtendedHeadersComeBack) {
  const Bytes bytes = test::sample_payload(AtomicEth::kBytes);
  const auto head = [&](std::size_t n) { return Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(n)); };
  EXPECT_EQ(round_trip<Reth>(bytes), head(Reth::kBytes));
  EXPECT_EQ(round_trip<AtomicEth>(bytes), bytes);
  EXPECT_EQ(round_trip<Aeth>(bytes), head(Aeth::kBytes));
  EXPECT_EQ(round_trip<Deth>(bytes), head(Deth::kBytes));
}

TEST(Headers, FethFieldsStandWhereTheSpecificationPutsThem) {
  const Feth h = Feth::load(from_hex("00000012").data());
  EXPECT_EQ(h.placement, 2);
  EXPECT_EQ(h.selectivity, 1);
  EXPECT_EQ(h.reserved, 0u);
  for (std::size_t bit = 0; bit < Feth::kBytes * 8; ++bit) {
    Bytes in(Feth::kBytes);
    in[bit / 8] = static_cast<std::byte>(0x80u >> bit % 8);
    EXPECT_EQ(round_trip<Feth>(in), in) << "bit " << bit;
  }
}

TEST(Headers, AethKinds) {
  EXPECT_EQ(Aeth({Aeth::ack(31), 0}).kind(), AethKind::ack);
  EXPECT_EQ(Aeth({Aeth::rnr(12), 0}).kind(), AethKind::rnr_nak);
  EXPECT_EQ(Aeth({Aeth::rnr(12), 0}).code(), 12);
  EXPECT_EQ(Aeth({Aeth::nak(NakCode::remote_access), 0}).kind(), AethKind::nak);
  EXPECT_EQ(Aeth({Aeth::nak(NakCode::remote_access), 0}).syndrome, 0x62);
  EXPECT_EQ(Aeth({0x45, 0}).kind(), AethKind::reserved);
  EXPECT_EQ(Aeth({0x80, 0}).kind(), AethKind::other);
}

}  // namespace
}  // namespace uroce::wire
