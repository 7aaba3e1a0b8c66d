// Claims on addresses: each is one program's, and goes with it.
#include "pmd_glue/address_claims.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "net/address.h"
#include "pmd_glue/notes.h"

namespace uroce::glue {
namespace {

Gid gid(const char* text) { return net::parse_address(text).value(); }

/// Nobody else's interface: suites that run at the same time share the names.
std::string interface() {
  static const std::string name = fmt::format("t{}", getpid());  // of a child, too
  return name;
}

class Claims : public testing::Test {
 protected:
  void SetUp() override {
    set_note_writer([this](NoteLevel, std::string_view text) { notes_.emplace_back(text); });
  }
  void TearDown() override { set_note_writer({}); }

  /// Takes the name of an address as a program would that knows it: a socket, which listens or not.
  int take_name(const char* address, bool listening) const {
    const std::string name = fmt::format("uroce-address/{}/0/{}", interface(), address);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    name.copy(at.sun_path + 1, sizeof at.sun_path - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    if (bind(fd, reinterpret_cast<const sockaddr*>(&at), length) != 0) return -1;
    if (listening && listen(fd, 1) != 0) return -1;
    return fd;
  }

  std::vector<std::string> notes_;
};

TEST_F(Claims, AnAddressIsOnePrograms) {
  AddressClaims first(1, interface(), 0);
  EXPECT_FALSE(first.claim(gid("192.0.2.1")));
  EXPECT_FALSE(first.claim(gid("192.0.2.1"))) << "it has it";
  AddressClaims second(1, interface(), 0);
  const auto holder = second.claim(gid("192.0.2.1"));
  ASSERT_TRUE(holder);
  EXPECT_EQ(holder->pid, getpid());
  EXPECT_EQ(holder->uid, geteuid());
  EXPECT_FALSE(second.claim(gid("192.0.2.2")));
  EXPECT_FALSE(second.claim(gid("2001:db8:ffff:ffff:ffff:ffff:ffff:ffff")));
  AddressClaims tagged(1, interface(), 7);
  EXPECT_FALSE(tagged.claim(gid("192.0.2.1"))) << "a VLAN is another link";
  AddressClaims elsewhere(2, interface() + "x", 0);
  EXPECT_FALSE(elsewhere.claim(gid("192.0.2.1")));
  EXPECT_TRUE(notes_.empty());
}

TEST_F(Claims, GoWithTheirOwner) {
  AddressClaims second(1, interface(), 0);
  {
    AddressClaims first(1, interface(), 0);
    EXPECT_FALSE(first.claim(gid("192.0.2.1")));
    EXPECT_FALSE(first.claim(gid("192.0.2.2")));
    first.keep(std::vector{gid("192.0.2.2")});
    EXPECT_FALSE(second.claim(gid("192.0.2.1")));
    EXPECT_TRUE(second.claim(gid("192.0.2.2")));
  }
  EXPECT_FALSE(second.claim(gid("192.0.2.2")));
}

TEST_F(Claims, GoOverToASuccessor) {
  AddressClaims heir(1, interface(), 0);
  AddressClaims other(1, interface(), 0);
  {
    AddressClaims first(1, interface(), 0);
    EXPECT_FALSE(first.claim(gid("192.0.2.1")));
    message::Belongings lent;
    first.lend(lent, "uroce0");
    AddressClaims(1, interface() + "x", 0).inherit(lent, "uroce0", gid("192.0.2.1"));  // another interface's
    EXPECT_TRUE(lent.list().empty());
    first.lend(lent, "uroce0");
    heir.inherit(lent, "uroce0", gid("192.0.2.2"));  // there is none
    heir.inherit(lent, "uroce0", gid("192.0.2.1"));
    EXPECT_FALSE(heir.claim(gid("192.0.2.1"))) << "it has it";
    heir.become_holder();
  }
  EXPECT_TRUE(other.claim(gid("192.0.2.1"))) << "the successor has it";
  EXPECT_FALSE(other.claim(gid("192.0.2.2")));
}

TEST_F(Claims, ManyMayAskWhoHasOne) {
  AddressClaims first(1, interface(), 0);
  EXPECT_FALSE(first.claim(gid("192.0.2.1")));
  AddressClaims second(1, interface(), 0);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(second.claim(gid("192.0.2.1"))) << i;
}

TEST_F(Claims, ANameThatNobodyAnswersForIsIgnored) {
  const int name = take_name("192.0.2.1", false);
  ASSERT_GE(name, 0);
  AddressClaims claims(1, interface(), 0);
  EXPECT_FALSE(claims.claim(gid("192.0.2.1")));
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("a process has the Unix socket"), std::string::npos) << notes_[0];
  close(name);
}

TEST_F(Claims, AUserWithoutAPortKeepsNobodyAway) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  (void)interface();  // before the child has another process id
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool taken = setresuid(61234, 61234, 61234) == 0 && take_name("192.0.2.1", true) >= 0;
    const char answer = taken ? 'y' : 'n';
    if (write(ready[1], &answer, 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char answer = 0;
  EXPECT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  AddressClaims claims(1, interface(), 0);
  EXPECT_FALSE(claims.claim(gid("192.0.2.1")));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find(fmt::format("process {} of user 61234", child)), std::string::npos) << notes_[0];
  for (const int end : ready) close(end);
}

}  // namespace
}  // namespace uroce::glue
