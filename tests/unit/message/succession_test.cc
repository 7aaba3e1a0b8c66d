// The conversation of a daemon and its successor, and the descriptors that go over.
#include "message/succession_link.h"

#include <cerrno>
#include <cstddef>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace uroce::message {
namespace {

constexpr std::chrono::milliseconds kStepTime{20};

class Succession : public testing::Test {
 protected:
  Succession() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    old_end_ = Connection(Fd(fds[0]));
    new_end_ = Connection(Fd(fds[1]));
  }

  Connection old_end_{Fd()}, new_end_{Fd()};
  SuccessionLink old_{old_end_}, new_{new_end_};
};

TEST_F(Succession, StepsCarryTheirContent) {
  const std::byte body[] = {std::byte{7}, std::byte{8}};
  ASSERT_TRUE(old_.send(Step::estate, body, {}));
  const auto got = new_.receive({Step::bequeathed, Step::estate}, kStepTime);
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->step, Step::estate);
  EXPECT_EQ(got->body, std::vector<std::byte>(std::begin(body), std::end(body)));
}

TEST_F(Succession, AnEndSaysWhyItGivesUp) {
  old_.fail({EINVAL, "two engines"});
  const auto got = new_.receive({Step::go}, kStepTime);
  EXPECT_EQ(got.error().code, EINVAL);
  EXPECT_EQ(got.error().text, "two engines");
}

TEST_F(Succession, SilenceAndOtherStepsAreErrors) {
  const auto silent = new_.receive({Step::go}, kStepTime);
  EXPECT_EQ(silent.error().code, ETIMEDOUT);
  EXPECT_EQ(silent.error().text, "the other daemon did not say 'go' within 20 ms");
  ASSERT_TRUE(old_.send(Step::ready));
  const auto other = new_.receive({Step::go}, kStepTime);
  EXPECT_EQ(other.error().code, EPROTO);
  EXPECT_EQ(other.error().text, "the other daemon said 'ready' in place of 'go'");
  const std::byte byte{9};
  ASSERT_TRUE(old_end_.send({&byte, 1}, {}));
  EXPECT_EQ(new_.receive({Step::go}, kStepTime).error().text, "the other daemon said nonsense in place of 'go'");
  old_end_ = Connection(Fd());
  EXPECT_EQ(new_.receive({Step::go}, kStepTime).error().code, ECONNRESET);
}

TEST_F(Succession, MoreDescriptorsGoOverThanAPacketHolds) {
  Belongings lent;
  constexpr std::size_t kMany = kMaxFds + 3;
  for (std::size_t i = 0; i < kMany; ++i) lent.lend("number " + std::to_string(i), old_end_.fd());
  lent.lend("nothing", -1);
  ASSERT_TRUE(lent.complete());
  ASSERT_TRUE(old_.send_belongings(lent));
  auto got = new_.receive_belongings();
  ASSERT_TRUE(got) << got.error().text;
  EXPECT_EQ(got->list().size(), kMany);
  const Fd last = got->take("number " + std::to_string(kMany - 1));
  EXPECT_TRUE(is_socket(last.get(), AF_UNIX, SOCK_SEQPACKET));
  EXPECT_FALSE(got->take("number " + std::to_string(kMany - 1))) << "it is taken";
  EXPECT_FALSE(got->take("nothing"));
}

TEST_F(Succession, NamesAndDescriptorsMustMatch) {
  std::vector<std::byte> body;
  encode(body, BelongingNames{.names = {"one", "two"}});
  const int one = new_end_.fd();
  ASSERT_TRUE(old_.send(Step::belongings, body, {&one, 1}));
  EXPECT_EQ(new_.receive_belongings().error().code, EPROTO);
}

TEST(Belongings, ASocketIsKnownByItsKindAndName) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "uroce-test-belongings-" + std::to_string(getpid());
  name.copy(address.sun_path + 1, name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* const at = reinterpret_cast<const sockaddr*>(&address);
  EXPECT_FALSE(is_bound_to(fd.get(), at, length));
  ASSERT_EQ(bind(fd.get(), at, length), 0);
  EXPECT_TRUE(is_bound_to(fd.get(), at, length));
  EXPECT_FALSE(is_bound_to(fd.get(), at, length - 1)) << "the name goes on";
  EXPECT_TRUE(is_socket(fd.get(), AF_UNIX, SOCK_STREAM));
  EXPECT_FALSE(is_socket(fd.get(), AF_UNIX, SOCK_SEQPACKET));
  EXPECT_FALSE(is_socket(fd.get(), AF_INET, SOCK_STREAM));
  EXPECT_FALSE(is_socket(-1, AF_UNIX, SOCK_STREAM));
}

}  // namespace
}  // namespace uroce::message
