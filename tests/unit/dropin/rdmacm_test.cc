// librdmacm's calls over two devices of this process, as programs use them.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "socket_address.h"

namespace {

constexpr const char* kServer = "10.117.0.1";

/// The IPv4 address in a GID, as on the wire.
uint32_t word_at(const ibv_gid& gid) {
  uint32_t word = 0;
  std::memcpy(&word, gid.raw + 12, sizeof(word));
  return word;
}

ibv_qp_init_attr small_qp(ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp_init_attr attr{};
  attr.cap = {4, 4, 1, 1, 0};
  attr.qp_type = type;
  attr.sq_sig_all = 1;
  return attr;
}

/// The next event, which must be of that type.
rdma_cm_event* expect_event(rdma_event_channel* channel, rdma_cm_event_type type) {
  pollfd waiting{channel->fd, POLLIN, 0};
  EXPECT_EQ(poll(&waiting, 1, 20000), 1) << "no " << rdma_event_str(type);
  rdma_cm_event* event = nullptr;
  if (waiting.revents == 0 || rdma_get_cm_event(channel, &event) != 0) return nullptr;
  EXPECT_STREQ(rdma_event_str(event->event), rdma_event_str(type)) << "status " << event->status;
  return event;
}

/// A listener and a client that knows its route to it; each side has its channel.
class Pair : public testing::Test {
 protected:
  void SetUp() override { set_up(RDMA_PS_TCP); }
  void set_up(rdma_port_space space) {
    server_channel_ = rdma_create_event_channel();
    client_channel_ = rdma_create_event_channel();
    ASSERT_NE(server_channel_, nullptr) << std::strerror(errno);
    ASSERT_EQ(rdma_create_id(server_channel_, &listener_, this, space), 0);
    ASSERT_EQ(rdma_create_id(client_channel_, &client_, nullptr, space), 0);
    auto any = address("0.0.0.0");
    ASSERT_EQ(rdma_bind_addr(listener_, plain(any)), 0);
    ASSERT_EQ(rdma_listen(listener_, 4), 0);
    auto target = address(kServer, ntohs(rdma_get_src_port(listener_)));
    ASSERT_EQ(rdma_resolve_addr(client_, nullptr, plain(target), 20000), 0);
    rdma_ack_cm_event(expect_event(client_channel_, RDMA_CM_EVENT_ADDR_RESOLVED));
    ASSERT_EQ(rdma_resolve_route(client_, 20000), 0);
    rdma_ack_cm_event(expect_event(client_channel_, RDMA_CM_EVENT_ROUTE_RESOLVED));
  }
  void TearDown() override {
    for (rdma_cm_id* id : {client_, server_, listener_}) {
      if (id == nullptr) continue;
      if (id->qp != nullptr) rdma_destroy_qp(id);
      EXPECT_EQ(rdma_destroy_id(id), 0);
    }
    rdma_destroy_event_channel(client_channel_);
    rdma_destroy_event_channel(server_channel_);
  }

  /// The server's side of a request, with the event still to be acknowledged.
  rdma_cm_event* take_request() {
    rdma_cm_event* request = expect_event(server_channel_, RDMA_CM_EVENT_CONNECT_REQUEST);
    EXPECT_EQ(request->listen_id, listener_);
    server_ = request->id;
    return request;
  }
  void connect(rdma_conn_param param = {}) {
    auto attr = small_qp(client_->qp_type);
    ASSERT_EQ(rdma_create_qp(client_, nullptr, &attr), 0) << std::strerror(errno);
    ASSERT_EQ(rdma_connect(client_, &param), 0) << std::strerror(errno);
    rdma_ack_cm_event(take_request());
    attr = small_qp(client_->qp_type);
    ASSERT_EQ(rdma_create_qp(server_, nullptr, &attr), 0);
    ASSERT_EQ(rdma_accept(server_, &param), 0) << std::strerror(errno);
    rdma_ack_cm_event(expect_event(client_channel_, RDMA_CM_EVENT_ESTABLISHED));
    rdma_ack_cm_event(expect_event(server_channel_, RDMA_CM_EVENT_ESTABLISHED));
  }

  rdma_event_channel* server_channel_ = nullptr;
  rdma_event_channel* client_channel_ = nullptr;
  rdma_cm_id* listener_ = nullptr;
  rdma_cm_id* client_ = nullptr;
  rdma_cm_id* server_ = nullptr;
};

TEST_F(Pair, ResolvedIdsSayWhereTheyAre) {
  EXPECT_STREQ(ibv_get_device_name(client_->verbs->device), "uroce1");
  EXPECT_EQ(client_->port_num, 1);
  EXPECT_NE(client_->pd, nullptr);
  ASSERT_EQ(client_->route.num_paths, 1);
  EXPECT_GE(client_->route.path_rec->mtu, IBV_MTU_1024);
  EXPECT_EQ(ntohs(client_->route.path_rec->pkey), 0xffff);
  EXPECT_EQ(client_->route.addr.src_sin.sin_addr.s_addr, address("10.117.0.2").sin_addr.s_addr);
  EXPECT_EQ(client_->route.addr.dst_sin.sin_addr.s_addr, address(kServer).sin_addr.s_addr);
  EXPECT_EQ(word_at(client_->route.addr.addr.ibaddr.dgid), address(kServer).sin_addr.s_addr);
  EXPECT_NE(rdma_get_src_port(client_), 0);
  EXPECT_EQ(rdma_get_dst_port(client_), rdma_get_src_port(listener_));
}

TEST_F(Pair, ConnectsMovesBytesAndParts) {
  connect();
  EXPECT_EQ(server_->context, this);
  EXPECT_STREQ(ibv_get_device_name(server_->verbs->device), "uroce0");
  EXPECT_EQ(server_->route.addr.src_sin.sin_addr.s_addr, address(kServer).sin_addr.s_addr);
  char out[] = "over the connection", in[64] = {};
  ibv_mr* out_mr = rdma_reg_msgs(client_, out, sizeof(out));
  ibv_mr* in_mr = rdma_reg_msgs(server_, in, sizeof(in));
  ASSERT_EQ(rdma_post_recv(server_, nullptr, in, sizeof(in), in_mr), 0);
  ASSERT_EQ(rdma_post_send(client_, nullptr, out, sizeof(out), out_mr, 0), 0);
  ibv_wc wc{};
  ASSERT_EQ(rdma_get_recv_comp(server_, &wc), 1);
  EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
  EXPECT_STREQ(in, out);
  ASSERT_EQ(rdma_get_send_comp(client_, &wc), 1);
  rdma_dereg_mr(out_mr);
  rdma_dereg_mr(in_mr);

  ASSERT_EQ(rdma_disconnect(client_), 0);
  rdma_ack_cm_event(expect_event(client_channel_, RDMA_CM_EVENT_DISCONNECTED));
  rdma_ack_cm_event(expect_event(server_channel_, RDMA_CM_EVENT_DISCONNECTED));
}

TEST_F(Pair, PrivateDataArrives) {
  rdma_conn_param param{};
  param.private_data = "hello";
  param.private_data_len = 5;
  param.responder_resources = 3;
  param.initiator_depth = 2;
  auto attr = small_qp();
  ASSERT_EQ(rdma_create_qp(client_, nullptr, &attr), 0);
  ASSERT_EQ(rdma_connect(client_, &param), 0);
  rdma_cm_event* request = take_request();
  EXPECT_EQ(std::string(static_cast<const char*>(request->param.conn.private_data), 5), "hello");
  EXPECT_EQ(request->param.conn.responder_resources, 2);
  EXPECT_EQ(request->param.conn.initiator_depth, 3);
  EXPECT_EQ(request->param.conn.qp_num, client_->qp->qp_num);
  rdma_ack_cm_event(request);
  ASSERT_EQ(rdma_reject(server_, "no", 2), 0);
  rdma_cm_event* rejected = expect_event(client_channel_, RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rejected->status, 28);
  EXPECT_EQ(std::string(static_cast<const char*>(rejected->param.conn.private_data), 2), "no");
  rdma_ack_cm_event(rejected);
}

TEST_F(Pair, WithoutAQueuePairTheApplicationEstablishes) {
  rdma_conn_param param{};
  param.qp_num = 77;
  ASSERT_EQ(rdma_connect(client_, &param), 0);
  rdma_ack_cm_event(take_request());
  param.qp_num = 78;
  ASSERT_EQ(rdma_accept(server_, &param), 0);
  rdma_cm_event* response = expect_event(client_channel_, RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_EQ(response->param.conn.qp_num, 78u);
  rdma_ack_cm_event(response);
  ibv_qp_attr attr{};
  int mask = 0;
  attr.qp_state = IBV_QPS_RTR;
  ASSERT_EQ(rdma_init_qp_attr(client_, &attr, &mask), 0);
  EXPECT_EQ(attr.dest_qp_num, 78u);
  EXPECT_EQ(mask & IBV_QP_AV, IBV_QP_AV);
  ASSERT_EQ(rdma_establish(client_), 0);
  rdma_ack_cm_event(expect_event(server_channel_, RDMA_CM_EVENT_ESTABLISHED));
}

TEST_F(Pair, OptionsOfOwnQueuePairsReachThePeer) {
  ibv_ece ours{.vendor_id = 0x123456, .options = 0xabcdef01, .comp_mask = 0};
  ibv_ece seen{};
  ASSERT_EQ(rdma_set_local_ece(client_, &ours), 0);
  rdma_conn_param param{};
  param.qp_num = 77;
  ASSERT_EQ(rdma_connect(client_, &param), 0);
  rdma_ack_cm_event(take_request());
  ASSERT_EQ(rdma_get_remote_ece(server_, &seen), 0);
  EXPECT_EQ(seen.vendor_id, 0x123456u);
  EXPECT_EQ(seen.options, 0xabcdef01u);
  ibv_ece agreed{.vendor_id = 0x123456, .options = 1, .comp_mask = 0};
  ASSERT_EQ(rdma_set_local_ece(server_, &agreed), 0);
  ASSERT_EQ(rdma_accept(server_, &param), 0);
  rdma_ack_cm_event(expect_event(client_channel_, RDMA_CM_EVENT_CONNECT_RESPONSE));
  ASSERT_EQ(rdma_get_remote_ece(client_, &seen), 0);
  EXPECT_EQ(seen.vendor_id, 0x123456u);
  EXPECT_EQ(seen.options, 1u);
  ASSERT_EQ(rdma_establish(client_), 0);
  rdma_ack_cm_event(expect_event(server_channel_, RDMA_CM_EVENT_ESTABLISHED));
}

TEST_F(Pair, AnEmptyChannelSaysSoWhenItMayNotWait) {
  ASSERT_EQ(fcntl(client_channel_->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(client_channel_, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Pair, DestroyingWaitsForAcknowledgement) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(client_channel_, &id, nullptr, RDMA_PS_TCP), 0);
  auto target = address(kServer, 1);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, plain(target), 20000), 0);
  rdma_cm_event* event = expect_event(client_channel_, RDMA_CM_EVENT_ADDR_RESOLVED);
  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    EXPECT_EQ(rdma_destroy_id(id), 0);
    destroyed = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(destroyed);
  rdma_ack_cm_event(event);
  destroyer.join();
}

TEST_F(Pair, EventsOfADestroyedIdAreDropped) {
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(client_channel_, &id, nullptr, RDMA_PS_TCP), 0);
  auto target = address(kServer, 1);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, plain(target), 20000), 0);
  ASSERT_EQ(rdma_destroy_id(id), 0);
  fcntl(client_channel_->fd, F_SETFL, O_NONBLOCK);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(client_channel_, &event), -1);
}

TEST_F(Pair, MigratedIdsTellOnTheOtherChannel) {
  ASSERT_EQ(rdma_resolve_route(client_, 20000), 0);
  rdma_event_channel* other = rdma_create_event_channel();
  ASSERT_EQ(rdma_migrate_id(client_, other), 0);
  EXPECT_EQ(client_->channel, other);
  rdma_ack_cm_event(expect_event(other, RDMA_CM_EVENT_ROUTE_RESOLVED));
  ASSERT_EQ(rdma_migrate_id(client_, nullptr), 0);
  EXPECT_NE(client_->channel, other);
  rdma_destroy_event_channel(other);
  // Its calls wait for their events now.
  ASSERT_EQ(rdma_resolve_route(client_, 20000), 0);
  EXPECT_EQ(client_->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
  EXPECT_EQ(rdma_migrate_id(client_, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Pair, Options) {
  uint8_t byte = 16;
  int number = 1;
  EXPECT_EQ(rdma_set_option(client_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), 0);
  EXPECT_EQ(rdma_set_option(client_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), 0);
  EXPECT_EQ(rdma_set_option(client_, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &number, sizeof(number)), 0);
  EXPECT_EQ(rdma_set_option(client_, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, sizeof(number)), 0);
  EXPECT_EQ(rdma_set_option(client_, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, sizeof(number)), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_set_option(client_, RDMA_OPTION_ID, 17, &number, sizeof(number)), -1);
  EXPECT_EQ(errno, ENOSYS);
  EXPECT_EQ(rdma_set_option(client_, 5, 0, &number, sizeof(number)), -1);
  EXPECT_EQ(errno, ENOSYS);
  ibv_path_data path{};
  EXPECT_EQ(rdma_set_option(client_, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &path, sizeof(path)), 0);
  rdma_ack_cm_event(expect_event(client_channel_, RDMA_CM_EVENT_ROUTE_RESOLVED));
}

TEST_F(Pair, MistakesAreRefused) {
  EXPECT_EQ(rdma_connect(client_, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_conn_param param{};
  param.initiator_depth = 200;  // beyond the device's
  EXPECT_EQ(rdma_connect(client_, &param), -1);
  EXPECT_EQ(errno, EINVAL);
  sockaddr odd{};
  odd.sa_family = AF_UNIX;
  EXPECT_EQ(rdma_bind_addr(client_, &odd), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_get_cm_event(client_channel_, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_ack_cm_event(nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_notify(client_, IBV_EVENT_SQ_DRAINED), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_get_request(listener_, &id), -1);
  EXPECT_EQ(errno, EINVAL);
}

class Datagrams : public Pair {
 protected:
  void SetUp() override { set_up(RDMA_PS_UDP); }
};

TEST_F(Datagrams, EstablishedHasThePeersAddress) {
  auto attr = small_qp(IBV_QPT_UD);
  ASSERT_EQ(rdma_create_qp(client_, nullptr, &attr), 0) << std::strerror(errno);
  EXPECT_EQ(client_->qp->state, IBV_QPS_RTS);
  rdma_conn_param param{};
  ASSERT_EQ(rdma_connect(client_, &param), 0);
  rdma_ack_cm_event(take_request());
  attr = small_qp(IBV_QPT_UD);
  ASSERT_EQ(rdma_create_qp(server_, nullptr, &attr), 0);
  param.qp_num = server_->qp->qp_num;
  ASSERT_EQ(rdma_accept(server_, &param), 0);
  rdma_cm_event* event = expect_event(client_channel_, RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(event->param.ud.qp_num, server_->qp->qp_num);
  EXPECT_EQ(event->param.ud.qkey, static_cast<uint32_t>(RDMA_UDP_QKEY));
  EXPECT_EQ(event->param.ud.ah_attr.is_global, 1);
  EXPECT_EQ(word_at(event->param.ud.ah_attr.grh.dgid), address(kServer).sin_addr.s_addr);
  rdma_ack_cm_event(event);
}

TEST_F(Datagrams, GroupsAreJoinedAndLeft) {
  auto attr = small_qp(IBV_QPT_UD);
  ASSERT_EQ(rdma_create_qp(client_, nullptr, &attr), 0);
  auto group = address("239.1.2.3");
  ASSERT_EQ(rdma_join_multicast(client_, plain(group), &group), 0);
  rdma_cm_event* event = expect_event(client_channel_, RDMA_CM_EVENT_MULTICAST_JOIN);
  EXPECT_EQ(event->param.ud.private_data, &group);
  EXPECT_EQ(event->param.ud.qp_num, 0xffffffu);
  EXPECT_EQ(event->status, 0);
  rdma_ack_cm_event(event);
  EXPECT_EQ(rdma_leave_multicast(client_, plain(group)), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_leave_multicast(client_, plain(group)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  rdma_cm_join_mc_attr_ex how{};
  how.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
  how.addr = plain(group);
  EXPECT_EQ(rdma_join_multicast_ex(client_, &how, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
  how.comp_mask |= RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
  how.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  ASSERT_EQ(rdma_join_multicast_ex(client_, &how, nullptr), 0);
  rdma_ack_cm_event(expect_event(client_channel_, RDMA_CM_EVENT_MULTICAST_JOIN));
}

TEST_F(Datagrams, AQueuePairGoesBeforeItsGroup) {
  ibv_cq* cq = ibv_create_cq(client_->verbs, 8, nullptr, nullptr, 0);
  auto attr = small_qp(IBV_QPT_UD);
  attr.send_cq = attr.recv_cq = cq;
  ASSERT_EQ(rdma_create_qp(client_, nullptr, &attr), 0);
  auto group = address("239.1.2.3");
  ASSERT_EQ(rdma_join_multicast(client_, plain(group), nullptr), 0);
  rdma_ack_cm_event(expect_event(client_channel_, RDMA_CM_EVENT_MULTICAST_JOIN));
  EXPECT_EQ(ibv_destroy_qp(client_->qp), EBUSY);
  rdma_destroy_qp(client_);
  EXPECT_EQ(ibv_destroy_cq(cq), 0);
  EXPECT_EQ(rdma_leave_multicast(client_, plain(group)), 0);
}

TEST(Endpoints, WaitForTheirEvents) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* info = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(kServer, "0", &hints, &info), 0);
  auto attr = small_qp();
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, info, nullptr, &attr), 0) << std::strerror(errno);
  rdma_freeaddrinfo(info);
  ASSERT_EQ(rdma_listen(listener, 0), 0);

  std::thread client_thread([port = std::to_string(ntohs(rdma_get_src_port(listener)))] {
    rdma_addrinfo wanted{};
    wanted.ai_port_space = RDMA_PS_TCP;
    rdma_addrinfo* found = nullptr;
    ASSERT_EQ(rdma_getaddrinfo(kServer, port.c_str(), &wanted, &found), 0);
    auto client_attr = small_qp();
    rdma_cm_id* client = nullptr;
    ASSERT_EQ(rdma_create_ep(&client, found, nullptr, &client_attr), 0) << std::strerror(errno);
    rdma_freeaddrinfo(found);
    ASSERT_EQ(rdma_connect(client, nullptr), 0) << std::strerror(errno);
    EXPECT_EQ(client->event->event, RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(rdma_disconnect(client), 0);
    rdma_destroy_ep(client);
  });
  rdma_cm_id* server = nullptr;
  ASSERT_EQ(rdma_get_request(listener, &server), 0) << std::strerror(errno);
  EXPECT_NE(server->qp, nullptr);
  EXPECT_EQ(server->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(rdma_accept(server, nullptr), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_disconnect(server), 0);
  client_thread.join();
  rdma_destroy_ep(server);
  rdma_destroy_ep(listener);
}

TEST(Endpoints, WithoutAListenerIsRefused) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* info = nullptr;
  ASSERT_EQ(rdma_getaddrinfo(kServer, "9", &hints, &info), 0);
  auto attr = small_qp();
  rdma_cm_id* client = nullptr;
  ASSERT_EQ(rdma_create_ep(&client, info, nullptr, &attr), 0);
  rdma_freeaddrinfo(info);
  EXPECT_EQ(rdma_connect(client, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  rdma_destroy_ep(client);
}

TEST(Endpoints, OfUnknownKindsAreRefused) {
  rdma_addrinfo info{};
  rdma_cm_id* id = nullptr;
  constexpr int kCutOff = 1 << 16;  // what a conversion to the API's types would lose
  for (const auto& [space, type] : {std::pair{RDMA_PS_TCP | kCutOff, int{IBV_QPT_RC}},
                                    std::pair{int{RDMA_PS_TCP}, IBV_QPT_RC | kCutOff}, std::pair{-1, -1}}) {
    info.ai_port_space = space;
    info.ai_qp_type = type;
    errno = 0;
    EXPECT_EQ(rdma_create_ep(&id, &info, nullptr, nullptr), -1);
    EXPECT_EQ(errno, EINVAL);
  }
}

TEST(Devices, AreThoseOfTheIds) {
  int count = 0;
  ibv_context** list = rdma_get_devices(&count);
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(list[2], nullptr);
  rdma_cm_id* id = nullptr;
  ASSERT_EQ(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), 0);
  auto local = address(kServer);
  ASSERT_EQ(rdma_bind_addr(id, plain(local)), 0);
  EXPECT_TRUE(id->verbs == list[0] || id->verbs == list[1]);
  rdma_destroy_id(id);
  rdma_free_devices(list);
}

}  // namespace
