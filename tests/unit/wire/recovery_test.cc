#include "wire/recovery.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"
#include "tests/support/packet_text.h"

namespace uroce::wire {
namespace {

std::vector<std::byte> bytes_of(const Hello& hello) {
  std::vector<std::byte> bytes(Hello::kBytes);
  hello.store(bytes.data());
  return bytes;
}

std::vector<std::byte> bytes_of(const Sack& sack) {
  std::vector<std::byte> bytes(sack.bytes());
  sack.store(bytes.data());
  return bytes;
}

Hello sample_hello() {
  return {.epoch = 0x89abcdef, .peer_epoch = 0x01234567, .parking = 1023, .answer = true, .port = 0xc0de};
}

Sack sample_sack() {
  Sack sack{};
  sack.epoch = 0x89abcdef;
  sack.base = Psn(0xfffffe);
  sack.echo = Psn(0xffffff);
  sack.echo_tag = 127;
  sack.duplicate = true;
  sack.hold = 0xfedcba98;
  sack.words = 2;
  sack.bitmap[0] = 0x8000000000000001;
  sack.bitmap[1] = 0x3;
  return sack;
}

TEST(Hello, ComesBack) {
  const auto hello = Hello::load(bytes_of(sample_hello()));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->epoch, 0x89abcdefu);
  EXPECT_EQ(hello->peer_epoch, 0x01234567u);
  EXPECT_EQ(hello->parking, 1023);
  EXPECT_TRUE(hello->answer);
  EXPECT_EQ(hello->port, 0xc0de);
}

TEST(Hello, LiesInNetworkOrderBehindItsMagic) {
  const std::vector<std::byte> bytes = bytes_of(sample_hello());
  EXPECT_EQ(load_be32(bytes.data()), 0x55524f43u);
  EXPECT_EQ(load8(bytes.data() + 4), 2);
  EXPECT_EQ(load_be16(bytes.data() + 6), 1023);
  EXPECT_EQ(load_be32(bytes.data() + 8), 0x89abcdefu);
  EXPECT_EQ(load_be32(bytes.data() + 12), 0x01234567u);
  EXPECT_EQ(load_be16(bytes.data() + 16), 0xc0deu);
  EXPECT_EQ(load_be16(bytes.data() + 18), 0u);
}

TEST(Seals, AreTenBitsOfBothEpochs) {
  std::set<uint32_t> seen;
  Random random(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto sender = static_cast<uint32_t>(random.next());
    const auto receiver = static_cast<uint32_t>(random.next());
    const Seal seal = Seal::of(sender, receiver);
    EXPECT_EQ(seal, Seal::of(sender, receiver));
    EXPECT_NE(seal, Seal{});
    Bth bth;
    bth.reserved6 = seal.upper;
    bth.reserved7 = seal.lower | 5;
    std::byte bytes[Bth::kBytes];
    bth.store(bytes);
    Bth back;
    back.read(bytes);
    EXPECT_EQ(Seal::of(back), seal) << "it fits the reserved bits";
    EXPECT_EQ(copy_of(back), 5);
    seen.insert(seal.upper << 7 | seal.lower);
  }
  EXPECT_EQ(seen.size(), 1023u);
}

TEST(Hello, IsRejectedWithAnotherLengthMagicOrVersion) {
  std::vector<std::byte> bytes = bytes_of(sample_hello());
  for (std::size_t n = 0; n < bytes.size(); ++n) EXPECT_FALSE(Hello::load({bytes.data(), n})) << n;
  bytes.resize(bytes.size() + 4);
  EXPECT_FALSE(Hello::load(bytes));
  for (std::size_t i = 0; i < 5; ++i) {
    bytes = bytes_of(sample_hello());
    bytes[i] ^= std::byte{2};
    EXPECT_FALSE(Hello::load(bytes)) << i;
  }
}

TEST(Hello, NeedsAnEpochAndAValidCapacity) {
  Hello hello = sample_hello();
  hello.epoch = 0;
  EXPECT_FALSE(Hello::load(bytes_of(hello)));
  hello = sample_hello();
  for (const uint16_t parking : {0, 1024, 65535}) {
    hello.parking = parking;
    EXPECT_FALSE(Hello::load(bytes_of(hello))) << parking;
  }
  hello.parking = 1;
  EXPECT_TRUE(Hello::load(bytes_of(hello)));
}

TEST(Sack, ComesBack) {
  Sack sack;
  ASSERT_TRUE(Sack::load(bytes_of(sample_sack()), sack));
  EXPECT_EQ(sack.epoch, 0x89abcdefu);
  EXPECT_EQ(sack.base, Psn(0xfffffe));
  EXPECT_EQ(sack.echo, Psn(0xffffff));
  EXPECT_EQ(sack.echo_tag, 127);
  EXPECT_TRUE(sack.duplicate);
  EXPECT_EQ(sack.hold, 0xfedcba98u);
  ASSERT_EQ(sack.words, 2u);
  EXPECT_EQ(sack.bitmap[0], 0x8000000000000001u);
  EXPECT_EQ(sack.bitmap[1], 3u);
}

TEST(Sack, TakesWholeWordsUpToSixteen) {
  const std::vector<std::byte> bytes(256);
  Sack sack;
  for (std::size_t n = 0; n <= bytes.size(); ++n) {
    EXPECT_EQ(Sack::load({bytes.data(), n}, sack), n >= 16 && n <= 144 && n % 8 == 0) << n;
  }
  ASSERT_TRUE(Sack::load({bytes.data(), 144}, sack));
  EXPECT_EQ(sack.words, 16u);
}

TEST(RecoveryText, ReadsAsPeopleExpect) {
  Packet packet;
  packet.bth.opcode = Opcode::hello;
  const std::vector<std::byte> hello = bytes_of(sample_hello());
  packet.payload = hello;
  EXPECT_EQ(to_text(packet), "HELLO qp=0x0 psn=0 epoch=0x89abcdef peer_epoch=0x1234567 parking=1023 port=49374 answer");
  packet.bth.opcode = Opcode::sack;
  packet.aeth = {Aeth::ack(5), 9};
  const std::vector<std::byte> sack = bytes_of(sample_sack());
  packet.payload = sack;
  EXPECT_EQ(to_text(packet),
            "SACK qp=0x0 psn=0 syndrome=ack credits=5 msn=9 epoch=0x89abcdef base=16777214 echo=16777215 tag=127 dup "
            "hold=4275878552 bits=16777215,62-64");
}

TEST(RecoveryText, ComesBack) {
  for (const char* line : {
           "HELLO qp=0x0 psn=0 epoch=0x1 peer_epoch=0x0 parking=255",
           "HELLO qp=0x7 psn=0 epoch=0x1 peer_epoch=0x2 parking=1 answer",
           "SACK qp=0x0 psn=99 syndrome=ack credits=31 msn=0 epoch=0x5 base=100 echo=7 hold=0",
           "SACK qp=0x0 psn=99 syndrome=rnr timer=1 msn=0 epoch=0x5 base=100 echo=7 tag=3 hold=1 bits=101,103-170",
           "SACK qp=0x0 psn=99 syndrome=ack credits=31 msn=0 epoch=0x5 base=100 echo=7 dup hold=1 bits=1124",
           "SACK qp=0x0 psn=99 syndrome=ack credits=31 msn=0 epoch=0x5 base=16777215 echo=7 hold=1 bits=0-3 words=4",
           "SACK qp=0x0 psn=99 syndrome=ack credits=31 msn=0 epoch=0x5 base=100 echo=7 hold=1 words=2",
           "SACK qp=0x0 psn=99 syndrome=ack credits=31 msn=0 payload=20",
       }) {
    const auto text = test::from_text(line);
    ASSERT_TRUE(text) << text.error().text;
    EXPECT_EQ(to_text(*text), line);
  }
}

TEST(RecoveryText, NonCanonicalPayloadIsWrittenAsBytes) {
  Packet packet;
  packet.bth.opcode = Opcode::hello;
  std::vector<std::byte> hello = bytes_of(sample_hello());
  hello[5] = std::byte{3};  // one of these bits means nothing
  packet.payload = hello;
  EXPECT_EQ(to_text(packet), "HELLO qp=0x0 psn=0 payload=20");
  hello.resize(4);
  packet.payload = hello;
  EXPECT_EQ(to_text(packet), "HELLO qp=0x0 psn=0 payload=4");
}

TEST(RecoveryText, ErrorsNameTheWord) {
  const auto complains = [](std::string_view line, std::string_view what) {
    const auto text = test::from_text(line);
    return !text && text.error().text.find(what) != std::string::npos;
  };
  EXPECT_TRUE(complains("HELLO base=1", "HELLO has no field 'base'"));
  EXPECT_TRUE(complains("SACK parking=1", "SACK has no field 'parking'"));
  EXPECT_TRUE(complains("HELLO dup", "'dup' is neither a flag"));
  EXPECT_TRUE(complains("SACK epoch=0x100000000", "does not fit in 32 bits"));
  EXPECT_TRUE(complains("SACK words=17", "words=17 is more than the limit of 16"));
  EXPECT_TRUE(complains("SACK base=5 bits=5", "bits=5 is not within the 1024 PSNs after base=5"));
  EXPECT_TRUE(complains("SACK base=5 bits=9-7", "bits=9-7 is not within"));
  EXPECT_TRUE(complains("SACK base=5 bits=6,1030", "bits=1030 is not within"));
  EXPECT_TRUE(complains("SACK base=5 bits=x", "bits=x is not a number"));
}

}  // namespace
}  // namespace uroce::wire
