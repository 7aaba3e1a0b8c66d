#include "uroced/notify_socket.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <span>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace uroce::daemon {
namespace {

using message::Fd;

/// As a service does, by the name alone.
void tell(const NotifySocket& socket, std::string text, std::span<const int> fds = {}) {
  const Fd own(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path + 1, socket.name().data() + 1, socket.name().size() - 1);
  iovec part{.iov_base = text.data(), .iov_len = text.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))] = {};
  msghdr header{};
  header.msg_name = &to;
  header.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket.name().size());
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* const one = CMSG_FIRSTHDR(&header);
    one->cmsg_level = SOL_SOCKET;
    one->cmsg_type = SCM_RIGHTS;
    one->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(one), fds.data(), fds.size_bytes());
  }
  ASSERT_EQ(sendmsg(own.get(), &header, 0), static_cast<ssize_t>(text.size()));
}

TEST(NotifySocket, TellsWhoSentWhat) {
  auto socket = NotifySocket::open();
  ASSERT_TRUE(socket) << socket.error().text;
  EXPECT_EQ(socket->name().front(), '@');
  EXPECT_FALSE(socket->receive());
  tell(*socket, "READY=1\nSTATUS=x");
  const auto got = socket->receive();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text, "READY=1\nSTATUS=x");
  EXPECT_EQ(got->process, getpid());
  EXPECT_EQ(got->user, getuid());
  EXPECT_TRUE(got->fds.empty());
  EXPECT_FALSE(socket->receive());
}

TEST(NotifySocket, TakesDescriptorsThatNoProgramInherits) {
  auto socket = NotifySocket::open();
  ASSERT_TRUE(socket) << socket.error().text;
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const int two[] = {ends[1], ends[1]};
  tell(*socket, "BARRIER=1", two);
  writer.reset();
  {
    const auto got = socket->receive();
    ASSERT_TRUE(got);
    ASSERT_EQ(got->fds.size(), 2u);
    for (const Fd& fd : got->fds) EXPECT_EQ(fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
    char byte = 0;
    EXPECT_EQ(read(reader.get(), &byte, 1), -1);  // EAGAIN: still open
  }
  char byte = 0;
  EXPECT_EQ(read(reader.get(), &byte, 1), 0);
}

TEST(NotifySocket, PassesOverWhatIsTooLong) {
  auto socket = NotifySocket::open();
  ASSERT_TRUE(socket) << socket.error().text;
  tell(*socket, "STATUS=" + std::string(5000, 'x'));
  tell(*socket, "READY=1");
  const auto got = socket->receive();
  ASSERT_TRUE(got);
  EXPECT_EQ(got->text, "READY=1");
}

}  // namespace
}  // namespace uroce::daemon
