// Calls that need no device: names and addresses, names of events, calls that are refused at once.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <memory>

#include "dropin/rdmacm/address.h"

namespace uroce::dropin::rdmacm {
namespace {

using Info = std::unique_ptr<rdma_addrinfo, decltype(&rdma_freeaddrinfo)>;

Info look_up(const char* node, const char* service, const rdma_addrinfo* hints) {
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(rdma_getaddrinfo(node, service, hints, &found), 0);
  return {found, rdma_freeaddrinfo};
}

TEST(RdmaGetaddrinfo, ActiveSideGetsADestination) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  const Info info = look_up("192.0.2.7", "7471", &hints);
  EXPECT_EQ(info->ai_flags & RAI_PASSIVE, 0);
  EXPECT_EQ(info->ai_family, AF_INET);
  EXPECT_EQ(info->ai_qp_type, IBV_QPT_RC);
  EXPECT_EQ(info->ai_port_space, RDMA_PS_TCP);
  EXPECT_EQ(info->ai_src_len, 0u);
  ASSERT_EQ(info->ai_dst_len, sizeof(sockaddr_in));
  EXPECT_EQ(to_address(info->ai_dst_addr), (CmAddress{Gid::from_ipv4(0xc0000207), 7471}));
}

TEST(RdmaGetaddrinfo, PassiveSideGetsASource) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_UDP;
  hints.ai_qp_type = IBV_QPT_UD;
  hints.ai_family = AF_INET6;
  const Info info = look_up(nullptr, "1234", &hints);
  EXPECT_EQ(info->ai_flags & RAI_PASSIVE, RAI_PASSIVE);
  EXPECT_EQ(info->ai_dst_len, 0u);
  ASSERT_EQ(info->ai_src_len, sizeof(sockaddr_in6));
  EXPECT_EQ(to_address(info->ai_src_addr), (CmAddress{Gid{}, 1234}));
  EXPECT_EQ(info->ai_qp_type, IBV_QPT_UD);
  EXPECT_EQ(info->ai_port_space, RDMA_PS_UDP);
}

TEST(RdmaGetaddrinfo, SourceOfTheHintsIsKept) {
  sockaddr_in source{};
  source.sin_family = AF_INET;
  source.sin_addr.s_addr = htonl(0x7f000001);
  rdma_addrinfo hints{};
  hints.ai_src_addr = reinterpret_cast<sockaddr*>(&source);
  hints.ai_src_len = sizeof(source);
  const Info info = look_up("::1", "9", &hints);
  EXPECT_EQ(info->ai_family, AF_INET6);
  ASSERT_EQ(info->ai_src_len, sizeof(source));
  EXPECT_EQ(to_address(info->ai_src_addr)->ip, Gid::from_ipv4(0x7f000001));
}

TEST(RdmaGetaddrinfo, WithoutANameTheHintsAreTakenOver) {
  sockaddr_in target{};
  target.sin_family = AF_INET;
  target.sin_port = htons(5);
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NOROUTE;
  hints.ai_port_space = RDMA_PS_IB;
  hints.ai_qp_type = IBV_QPT_UC;
  hints.ai_dst_addr = reinterpret_cast<sockaddr*>(&target);
  hints.ai_dst_len = sizeof(target);
  const Info info = look_up(nullptr, nullptr, &hints);
  EXPECT_EQ(info->ai_flags, RAI_NOROUTE);
  EXPECT_EQ(info->ai_port_space, RDMA_PS_IB);
  EXPECT_EQ(info->ai_qp_type, IBV_QPT_UC);
  EXPECT_EQ(ntohs(port_of(info->ai_dst_addr)), 5);
}

TEST(RdmaGetaddrinfo, GidFamilyHoldsPortSpaceAndPort) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_FAMILY | RAI_NUMERICHOST;
  hints.ai_family = AF_IB;
  hints.ai_port_space = RDMA_PS_TCP;
  const Info info = look_up("fe80::1", "258", &hints);
  ASSERT_EQ(info->ai_dst_len, sizeof(sockaddr_ib));
  const auto* address = reinterpret_cast<const sockaddr_ib*>(info->ai_dst_addr);
  EXPECT_EQ(be64toh(address->sib_sid), 0x0000000001060102u);
  EXPECT_EQ(to_address(info->ai_dst_addr)->port, 258);
  EXPECT_EQ(to_address(info->ai_dst_addr)->ip.bytes[0], 0xfe);
}

TEST(RdmaGetaddrinfo, Errors) {
  rdma_addrinfo* found = nullptr;
  EXPECT_EQ(rdma_getaddrinfo(nullptr, nullptr, nullptr, &found), -1);
  EXPECT_EQ(errno, EINVAL);
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_NUMERICHOST;
  EXPECT_EQ(rdma_getaddrinfo("no.such.name.invalid", "1", &hints, &found), EAI_NONAME);
}

TEST(RdmaEventStr, NamesEveryEvent) {
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED");
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_ESTABLISHED), "RDMA_CM_EVENT_ESTABLISHED");
  EXPECT_STREQ(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT");
  EXPECT_STREQ(rdma_event_str(static_cast<rdma_cm_event_type>(18)), "RDMA_CM_EVENT_USER");
  EXPECT_STREQ(rdma_event_str(static_cast<rdma_cm_event_type>(99)), "UNKNOWN EVENT");
}

TEST(Address, ThereAndBack) {
  for (const sa_family_t family : {AF_INET, AF_INET6, AF_IB}) {
    const CmAddress address{Gid::from_ipv4(0x0a000001), 513};
    sockaddr_storage storage{};
    to_sockaddr(address, family, RDMA_PS_TCP, storage);
    EXPECT_EQ(storage.ss_family, family);
    EXPECT_EQ(to_address(reinterpret_cast<const sockaddr*>(&storage)), address) << family;
  }
  EXPECT_EQ(address_length(nullptr), 0u);
  sockaddr unknown{};
  unknown.sa_family = AF_UNIX;
  EXPECT_EQ(address_length(&unknown), 0u);
  EXPECT_EQ(to_address(&unknown), std::nullopt);
}

}  // namespace
}  // namespace uroce::dropin::rdmacm
