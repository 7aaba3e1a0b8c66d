#include "service/guess_watch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace uroce::service {
namespace {

using namespace std::chrono_literals;

PeerGuesses peer(uint32_t n, uint64_t qpns, uint64_t rkeys = 0) {
  PeerGuesses out{.peer = Gid::from_ipv4(0x0a000000 + n)};
  out.counts[static_cast<std::size_t>(Guess::qpn)] = qpns;
  out.counts[static_cast<std::size_t>(Guess::rkey)] = rkeys;
  return out;
}

class Watching : public ::testing::Test {
 protected:
  /// The line for these peers now; empty for none.
  std::string line(const std::vector<PeerGuesses>& peers) { return watch_.line("uroce0", peers, now_).value_or(""); }

  GuessWatch watch_;
  GuessWatch::Time now_{1h};
};

TEST_F(Watching, AFewAreAccidents) { EXPECT_EQ(line({peer(1, 999), peer(2, 500, 499)}), ""); }

TEST_F(Watching, TellsOnceOfEachThreshold) {
  const std::string told = line({peer(1, 900, 100)});
  for (const char* word : {"uroce0", "10.0.0.1", "1000 frames", "qpn 900, rkey 100", "uroce show peer"}) {
    EXPECT_NE(told.find(word), std::string::npos) << told;
  }
  now_ += 1min;
  EXPECT_EQ(line({peer(1, 99'999)}), "");
  EXPECT_NE(line({peer(1, 100'000)}), "");
  now_ += 1min;
  EXPECT_EQ(line({peer(1, 200'000)}), "");
}

TEST_F(Watching, HoweverManyGuessThereIsALineInTenSeconds) {
  const std::vector<PeerGuesses> crowd{peer(1, 1'000), peer(2, 5'000), peer(3, 2'000)};
  EXPECT_NE(line(crowd).find("10.0.0.2"), std::string::npos) << "the worst first";
  for (int i = 0; i < 9; ++i, now_ += 1s) EXPECT_EQ(line(crowd), "");
  now_ += 1s;
  EXPECT_NE(line(crowd).find("10.0.0.3"), std::string::npos);
  now_ += 10s;
  EXPECT_NE(line(crowd).find("10.0.0.1"), std::string::npos);
  now_ += 10s;
  EXPECT_EQ(line(crowd), "");
}

TEST_F(Watching, ForgetsThoseTheDeviceForgot) {
  EXPECT_NE(line({peer(1, 1'000)}), "");
  now_ += 1min;
  EXPECT_EQ(line({peer(2, 1)}), "");
  EXPECT_NE(line({peer(1, 1'000)}), "");
}

TEST_F(Watching, TellsOfSlowedRequestsOnceIn10Seconds) {
  const auto slowed = [this](uint64_t requests) {
    return watch_.line("uroce0", cm::Slowed{.requests = requests, .last = peer(3, 0).peer}, now_).value_or("");
  };
  EXPECT_EQ(slowed(0), "");
  const std::string told = slowed(1);
  for (const char* word : {"uroce0: 1 connection requests", "10.0.0.3", "wrong key"}) {
    EXPECT_NE(told.find(word), std::string::npos) << told;
  }
  for (int i = 0; i < 10; ++i, now_ += 1s) EXPECT_EQ(slowed(100 + static_cast<uint64_t>(i)), "");
  EXPECT_NE(slowed(110).find("109 connection requests"), std::string::npos);
  now_ += 10s;
  EXPECT_EQ(slowed(110), "") << "nothing new";
}

}  // namespace
}  // namespace uroce::service
