// Events that a program raises itself, and asynchronous name resolution, by the declarations here.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "dropin/common/foreign_enum.h"
#include "dropin/rdmacm/later_cm.h"

namespace {

namespace later = uroce::dropin::rdmacm::later;
using uroce::dropin::number_of;

class OwnEvents : public testing::Test {
 protected:
  void SetUp() override {
    channel_ = rdma_create_event_channel();
    ASSERT_NE(channel_, nullptr) << std::strerror(errno);
    ASSERT_EQ(rdma_create_id(channel_, &id_, this, RDMA_PS_TCP), 0);
  }
  void TearDown() override {
    EXPECT_EQ(rdma_destroy_id(id_), 0);
    rdma_destroy_event_channel(channel_);
  }
  bool readable() const {
    pollfd waiting{channel_->fd, POLLIN, 0};
    return poll(&waiting, 1, 0) == 1;
  }
  /// Takes an event, which must be of that type. Returns its status.
  int take(uint32_t type) {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(channel_, &event), 0);
    EXPECT_EQ(number_of(event->event), type);
    EXPECT_EQ(event->id, id_);
    const int status = event->status;
    std::memcpy(&argument_, &event->param, sizeof(argument_));
    rdma_ack_cm_event(event);
    return status;
  }

  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  uint64_t argument_ = 0;
};

TEST_F(OwnEvents, ComeWithStatusAndArgument) {
  ASSERT_EQ(later::write_cm_event(id_, later::kUserEvent, -7, 0x0123'4567'89ab'cdef), 0);
  ASSERT_EQ(later::write_cm_event(id_, later::kUserEvent, 8, 9), 0);
  EXPECT_TRUE(readable());
  EXPECT_EQ(take(later::kUserEvent), -7);
  EXPECT_EQ(argument_, 0x0123'4567'89ab'cdefu);
  EXPECT_EQ(take(later::kUserEvent), 8);
  EXPECT_EQ(argument_, 9u);
  EXPECT_FALSE(readable());
}

TEST_F(OwnEvents, WakeAThreadThatWaits) {
  std::thread waits([&] { EXPECT_EQ(take(later::kUserEvent), 0); });
  EXPECT_EQ(later::write_cm_event(id_, later::kUserEvent, 0, 0), 0);
  waits.join();
}

TEST_F(OwnEvents, OfOtherTypesAreRefused) {
  for (const auto type : {uint32_t{RDMA_CM_EVENT_ESTABLISHED}, later::kAddrinfoResolved, uint32_t{19}}) {
    errno = 0;
    EXPECT_EQ(later::write_cm_event(id_, type, 0, 0), -1);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST_F(OwnEvents, ResolvedNamesAreQueriedOnce) {
  rdma_addrinfo hints{};
  hints.ai_flags = later::kAskResolver;
  hints.ai_port_space = RDMA_PS_TCP;
  ASSERT_EQ(later::resolve_addrinfo(id_, "192.0.2.7", "7471", &hints), 0) << std::strerror(errno);
  EXPECT_EQ(later::resolve_addrinfo(id_, "192.0.2.7", "7471", &hints), -1);
  EXPECT_EQ(errno, EBUSY);
  EXPECT_EQ(take(later::kAddrinfoResolved), 0);
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(later::query_addrinfo(id_, &found), 0);
  EXPECT_EQ(ntohs(reinterpret_cast<const sockaddr_in*>(found->ai_dst_addr)->sin_port), 7471);
  rdma_freeaddrinfo(found);
  EXPECT_EQ(later::query_addrinfo(id_, &found), -1);
  EXPECT_EQ(errno, ENOENT);
  ASSERT_EQ(later::resolve_addrinfo(id_, "192.0.2.8", nullptr, nullptr), 0);  // left to the id
}

TEST_F(OwnEvents, NamesThatAreNotFoundAreAnEvent) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST;
  ASSERT_EQ(later::resolve_addrinfo(id_, "no number", nullptr, &hints), 0);
  EXPECT_EQ(take(later::kAddrinfoError), -ENOENT);
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(later::query_addrinfo(id_, &found), -1);
  ASSERT_EQ(later::resolve_addrinfo(id_, "192.0.2.7", nullptr, &hints), 0);  // not busy
  EXPECT_EQ(take(later::kAddrinfoResolved), 0);
}

TEST_F(OwnEvents, ThereIsNoSubnetAdministrator) {
  rdma_addrinfo hints{};
  hints.ai_flags = later::kAskAdministrator;
  EXPECT_EQ(later::resolve_addrinfo(id_, nullptr, "service", &hints), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(later::resolve_addrinfo(id_, nullptr, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(SynchronousId, AnOwnEventIsNoRequest) {
  sockaddr_in any{};
  any.sin_family = AF_INET;
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &listener, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)), 0);
  ASSERT_EQ(rdma_listen(listener, 1), 0);
  ASSERT_EQ(later::write_cm_event(listener, later::kUserEvent, 0, 0), 0);
  rdma_cm_id* request = nullptr;
  EXPECT_EQ(rdma_get_request(listener, &request), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_destroy_id(listener), 0);
}

TEST(SynchronousId, ResolvesNamesInTheCall) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  ASSERT_EQ(later::resolve_addrinfo(id, "192.0.2.7", nullptr, nullptr), 0);
  rdma_addrinfo* found = nullptr;
  ASSERT_EQ(later::query_addrinfo(id, &found), 0);
  rdma_freeaddrinfo(found);
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST;
  EXPECT_EQ(later::resolve_addrinfo(id, "no number", nullptr, &hints), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(rdma_destroy_id(id), 0);
}

}  // namespace
