// The parts of the drop-in library that need no device.
#include <gtest/gtest.h>

#include <infiniband/verbs.h>
#include <stdlib.h>
#include <array>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "dropin/common/caller.h"
#include "dropin/common/foreign_enum.h"
#include "dropin/common/qp_attr.h"
#include "dropin/common/report.h"
#include "dropin/ibverbs/grh.h"
#include "dropin/ibverbs/identity.h"
#include "dropin/ibverbs/wr_list.h"
#include "dropin/sysfs/path.h"

namespace uroce::dropin {
namespace {

TEST(Rates, GoThereAndBack) {
  for (int rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; ++rate) {
    const auto as_rate = static_cast<ibv_rate>(rate);
    EXPECT_EQ(mbps_to_ibv_rate(ibv_rate_to_mbps(as_rate)), as_rate) << rate;
    const int mult = ibv_rate_to_mult(as_rate);
    EXPECT_TRUE(mult < 0 || mult_to_ibv_rate(mult) == as_rate) << rate;
  }
  EXPECT_EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
  EXPECT_EQ(ibv_rate_to_mult(IBV_RATE_MAX), -1);
  EXPECT_EQ(mult_to_ibv_rate(0), IBV_RATE_MAX);
  EXPECT_EQ(mult_to_ibv_rate(7), IBV_RATE_MAX);
}

TEST(Strings, AreThoseOfRdmaCore) {
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry counter exceeded");
  EXPECT_STREQ(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE), "TM software rendezvous");
  EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(24)), "unknown");
  EXPECT_STREQ(ibv_wc_status_str(static_cast<ibv_wc_status>(-1)), "unknown");
  EXPECT_STREQ(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
  EXPECT_STREQ(ibv_node_type_str(static_cast<ibv_node_type>(0)), "unknown");
  EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
  EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_GID_CHANGE), "GID table change");
  EXPECT_STREQ(ibv_event_type_str(static_cast<ibv_event_type>(20)), "Device link speed change");
}

TEST(Identity, GuidIsTheMacsEui64) { EXPECT_EQ(guid_of({{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}}), 0x001122fffe334455u); }

/// A GRH area with an IPv4 header of `from` to `to`, in host order.
ibv_grh ipv4_grh(uint32_t from, uint32_t to) {
  uint8_t b[40] = {};
  std::memset(b, 0x66, 20);  // without meaning; looks like IPv6 here
  uint8_t* ip = b + 20;
  ip[0] = 0x45;
  ip[1] = 0x68;
  ip[8] = 17;
  ip[9] = 17;
  for (unsigned i = 0; i < 4; ++i) {
    ip[12 + i] = static_cast<uint8_t>(from >> (24 - 8 * i));
    ip[16 + i] = static_cast<uint8_t>(to >> (24 - 8 * i));
  }
  uint32_t sum = 0;
  for (unsigned i = 0; i < 20; i += 2) sum += uint32_t{ip[i]} << 8 | ip[i + 1];
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  ip[10] = static_cast<uint8_t>(~sum >> 8);
  ip[11] = static_cast<uint8_t>(~sum);
  ibv_grh grh{};
  std::memcpy(&grh, b, sizeof(grh));
  return grh;
}

TEST(RouteBack, TurnsAnIpv4HeaderRound) {
  const std::vector<Gid> gids = {Gid::from_ipv4(0x0a000009), Gid::from_ipv4(0x0a000002)};
  const auto route = route_back(ipv4_grh(0x0a000001, 0x0a000002), gids);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->dgid, Gid::from_ipv4(0x0a000001));
  EXPECT_EQ(route->sgid_index, 1);
  EXPECT_EQ(route->traffic_class, 0x68);
  EXPECT_EQ(route->hop_limit, 17);
}

TEST(RouteBack, RefusesHeadersWithoutAWayBack) {
  const std::vector<Gid> gids = {Gid::from_ipv4(0x0a000002)};
  EXPECT_EQ(route_back(ipv4_grh(0x0a000001, 0xe0000001), gids).error().code, EINVAL);
  EXPECT_EQ(route_back(ipv4_grh(0x0a000001, 0x0a000003), gids).error().code, ENOENT);
  EXPECT_EQ(route_back(ibv_grh{}, gids).error().code, EPROTONOSUPPORT);
}

TEST(RouteBack, TurnsAnIpv6HeaderRound) {
  ibv_grh grh{};
  grh.version_tclass_flow = htobe32(6u << 28 | 0xa5u << 20 | 0x12345);
  grh.next_hdr = 17;
  grh.hop_limit = 9;
  grh.sgid.raw[0] = 0xfe;
  grh.sgid.raw[15] = 1;
  grh.dgid.raw[0] = 0xfe;
  grh.dgid.raw[15] = 2;
  Gid local;
  local.bytes[0] = 0xfe;
  local.bytes[15] = 2;
  const std::vector<Gid> gids = {local};
  const auto route = route_back(grh, gids);
  ASSERT_TRUE(route);
  EXPECT_EQ(route->dgid.bytes[15], 1);
  EXPECT_EQ(route->flow_label, 0x12345u);
  EXPECT_EQ(route->traffic_class, 0xa5);
  EXPECT_EQ(route->hop_limit, 9);
  grh.next_hdr = 0x1b;  // RoCE v1
  EXPECT_EQ(route_back(grh, gids).error().code, EPROTONOSUPPORT);
}

TEST(QpAttributes, SurviveTheWayThroughTheApi) {
  ibv_qp_attr in{};
  in.qp_state = IBV_QPS_RTR;
  in.path_mtu = IBV_MTU_4096;
  in.dest_qp_num = 0x123456;
  in.rq_psn = 0xfffffe;
  in.qkey = 0x80010000;
  in.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  in.max_dest_rd_atomic = 16;
  in.min_rnr_timer = 31;
  in.timeout = 14;
  in.port_num = 1;
  in.ah_attr.is_global = 1;
  in.ah_attr.port_num = 1;
  in.ah_attr.grh.dgid.raw[15] = 7;
  in.ah_attr.grh.hop_limit = 1;
  in.ah_attr.grh.flow_label = 0xfffff;
  QpAttr middle;
  ASSERT_EQ(convert(in, IBV_QP_AV | IBV_QP_STATE, middle), 0);
  ibv_qp_attr out{};
  convert(middle, out);
  EXPECT_EQ(out.qp_state, in.qp_state);
  EXPECT_EQ(out.path_mtu, in.path_mtu);
  EXPECT_EQ(out.dest_qp_num, in.dest_qp_num);
  EXPECT_EQ(out.rq_psn, in.rq_psn);
  EXPECT_EQ(out.qkey, in.qkey);
  EXPECT_EQ(out.qp_access_flags, in.qp_access_flags);
  EXPECT_EQ(out.min_rnr_timer, in.min_rnr_timer);
  EXPECT_EQ(out.ah_attr.grh.dgid.raw[15], 7);
  EXPECT_EQ(out.ah_attr.grh.flow_label, 0xfffffu);
  EXPECT_EQ(out.ah_attr.grh.hop_limit, 64) << "1 is InfiniBand's way of saying: the route's";
}

TEST(Refusals, LibrariesThatProbeExpectSome) {
  for (const char* library : {"libfabric.so.1", "libverbs-fi.so", "libuct_ib.so.0", "mca_btl_openib.so"}) {
    EXPECT_TRUE(is_expected_by(library, EINVAL)) << library;
    EXPECT_TRUE(is_expected_by(library, EOPNOTSUPP)) << library;
    EXPECT_FALSE(is_expected_by(library, ENOMEM)) << library;
    EXPECT_FALSE(is_expected_by(library, EACCES)) << library;
  }
  for (const char* other : {"ib_write_bw", "libc.so.6", "libpyverbs.so", ""}) {
    EXPECT_FALSE(is_expected_by(other, EINVAL)) << other;
  }
}

TEST(Refusals, TheStackTellsWhoCalled) {
  const auto caller = calling_object();
  ASSERT_TRUE(caller);
  EXPECT_EQ(caller->rfind("unit-dropin", 0), 0u) << *caller;
}

/// Lines that `uroce-run --explain` gets.
TEST(Refusals, AProbeIsMarked) {
  std::string file = testing::TempDir() + "refusals-XXXXXX";
  close(mkstemp(file.data()));
  setenv("UROCE_EXPLAIN", file.c_str(), 1);
  EXPECT_EQ(refuse(EINVAL, "one"), EINVAL);
  EXPECT_EQ(refuse_null(EOPNOTSUPP, "two"), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(refuse_probe(EOPNOTSUPP, "three"), nullptr);
  unsetenv("UROCE_EXPLAIN");
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const std::string program = program_invocation_short_name;
  EXPECT_EQ(lines, (std::vector{program + ": one", program + ": two", "?" + program + ": three"}));
  std::remove(file.c_str());
}

TEST(QpAttributes, RefusesAttributesThatRoceLacks) {
  ibv_qp_attr in{};
  QpAttr out;
  EXPECT_EQ(convert(in, IBV_QP_AV, out), EINVAL) << "no GID";
  EXPECT_EQ(convert(in, IBV_QP_STATE, out), 0) << "the address is not looked at";
  EXPECT_EQ(convert(in, IBV_QP_ALT_PATH, out), EOPNOTSUPP);
  in.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND;
  EXPECT_EQ(convert(in, IBV_QP_ACCESS_FLAGS, out), 0);
  EXPECT_EQ(out.access, AccessFlags(Access::remote_read)) << "regions are on demand";
  in.rate_limit = 1234567;
  EXPECT_EQ(convert(in, IBV_QP_RATE_LIMIT, out), 0);
  EXPECT_EQ(out.rate_limit, 1234567u);
}

TEST(QpAttributes, MayHaveNumbersThatTheHeadersLack) {
  ibv_qp_attr in;
  std::memset(&in, 0xab, sizeof(in));  // as a program leaves members that the mask excludes
  QpAttr out;
  EXPECT_EQ(convert(in, IBV_QP_PKEY_INDEX, out), 0);
  set_number(in.qp_state, 0x100 + IBV_QPS_RTS);
  set_number(in.path_mtu, 0x100 + IBV_MTU_1024);
  EXPECT_EQ(convert(in, IBV_QP_STATE, out), 0);
  EXPECT_EQ(static_cast<int>(out.state), UINT8_MAX) << "which is refused, not RTS";
  EXPECT_EQ(static_cast<int>(out.path_mtu), UINT8_MAX);
}

TEST(WrList, KeepsPayloadsApartAsItGrows) {
  WrList list;
  list.set_limits(4, 64);
  std::vector<Sge> sges;
  for (uint32_t i = 0; i < 100; ++i) sges.push_back({i, i, i});
  for (uint32_t i = 0; i < 100; ++i) {
    list.add({.wr_id = i});
    if (i % 2 == 0) {
      list.set_sges(std::span(sges).subspan(i, i % 3));
    } else {
      list.begin_inline();
      list.append_inline(&i, sizeof(i));
      list.append_inline(&i, 1);
    }
  }
  ASSERT_EQ(list.error(), 0);
  const auto requests = list.requests();
  ASSERT_EQ(requests.size(), 100u);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(requests[i].wr_id, i);
    if (i % 2 == 0) {
      ASSERT_EQ(requests[i].sges.size(), i % 3);
      EXPECT_TRUE(i % 3 == 0 || requests[i].sges[0].lkey == i);
      EXPECT_FALSE(requests[i].flags.has(SendFlag::inline_data));
    } else {
      ASSERT_EQ(requests[i].inline_data.size(), 5u);
      uint32_t value = 0;
      std::memcpy(&value, requests[i].inline_data.data(), sizeof(value));
      EXPECT_EQ(value, i);
      EXPECT_TRUE(requests[i].flags.has(SendFlag::inline_data));
    }
  }
}

TEST(WrList, OneFaultFailsTheList) {
  WrList list;
  list.set_limits(2, 8);
  const Sge sges[3] = {};
  list.set_sges(sges);
  EXPECT_EQ(list.error(), EINVAL) << "no request yet";
  list.clear();
  EXPECT_EQ(list.error(), 0);
  list.add({});
  list.set_sges(sges);
  EXPECT_EQ(list.error(), EINVAL) << "more entries than the queue pair takes";
  list.add({});
  EXPECT_TRUE(list.requests().size() == 1);
  list.clear();
  list.add({});
  list.begin_inline();
  list.append_inline("12345678", 8);
  EXPECT_EQ(list.error(), 0);
  list.append_inline("9", 1);
  EXPECT_EQ(list.error(), EINVAL) << "more bytes than the queue pair takes";
}

TEST(Redirector, PicksTheKernelsTreeForDevicesAlone) {
  EXPECT_EQ(redirected_part("/sys/class/infiniband"), "/class/infiniband");
  EXPECT_EQ(redirected_part("/sys/class/infiniband/uroce0/node_type"), "/class/infiniband/uroce0/node_type");
  EXPECT_EQ(redirected_part("/sys//class///infiniband_verbs/abi_version"), "//class///infiniband_verbs/abi_version");
  EXPECT_EQ(redirected_part("/dev/infiniband"), "/dev/infiniband");
  EXPECT_EQ(redirected_part("//dev/infiniband//rdma_cm"), "//dev/infiniband//rdma_cm");
  EXPECT_EQ(redirected_part("/dev/infinibandit"), "");
  EXPECT_EQ(redirected_part("/dev/null"), "");
  EXPECT_EQ(redirected_part("/sys/class/infinibandit"), "");
  EXPECT_EQ(redirected_part("/sys/class/net"), "");
  EXPECT_EQ(redirected_part("/sys/class"), "");
  EXPECT_EQ(redirected_part("/system/class/infiniband"), "");
  EXPECT_EQ(redirected_part("sys/class/infiniband"), "");
  EXPECT_EQ(redirected_part(""), "");
}

TEST(Redirector, NeedsATree) {
  unsetenv("UROCE_SYSFS");
  EXPECT_STREQ(RedirectedPath("/sys/class/infiniband").c_str(), "/sys/class/infiniband");
  setenv("UROCE_SYSFS", "/tmp/tree", 1);
  EXPECT_STREQ(RedirectedPath("/sys/class/infiniband").c_str(), "/tmp/tree/class/infiniband");
  EXPECT_STREQ(RedirectedPath("/dev/infiniband/uverbs0").c_str(), "/tmp/tree/dev/infiniband/uverbs0");
  EXPECT_TRUE(RedirectedPath("/dev/infiniband/uverbs0").is_device());
  EXPECT_FALSE(RedirectedPath("/dev/infiniband/").is_device());
  EXPECT_FALSE(RedirectedPath("/sys/class/infiniband/uroce0").is_device());
  EXPECT_STREQ(RedirectedPath("/etc/passwd").c_str(), "/etc/passwd");
  EXPECT_EQ(RedirectedPath(nullptr).c_str(), nullptr);
  const std::string huge(5000, 'x');
  const std::string path = "/sys/class/infiniband/" + huge;
  EXPECT_EQ(RedirectedPath(path.c_str()).c_str(), path.c_str()) << "too long to send elsewhere";
  unsetenv("UROCE_SYSFS");
}

TEST(Redirector, RestoresPaths) {
  const auto restored = [](const char* path) {
    std::array<char, 64> text{};
    std::strcpy(text.data(), path);
    return std::string(restore_path(text.data()));
  };
  EXPECT_EQ(restored("/tmp/tree/class/infiniband/uroce0"), "/tmp/tree/class/infiniband/uroce0") << "no tree";
  setenv("UROCE_SYSFS", "/tmp/tree", 1);
  EXPECT_EQ(restored("/tmp/tree/class/infiniband/uroce0"), "/sys/class/infiniband/uroce0");
  EXPECT_EQ(restored("/tmp/tree/class/infiniband_verbs"), "/sys/class/infiniband_verbs");
  EXPECT_EQ(restored("/tmp/tree/dev/infiniband"), "/dev/infiniband");
  EXPECT_EQ(restored("/tmp/tree"), "/tmp/tree");
  EXPECT_EQ(restored("/tmp/treehouse/dev/infiniband"), "/tmp/treehouse/dev/infiniband");
  EXPECT_EQ(restored("/tmp"), "/tmp");
  EXPECT_EQ(restore_path(nullptr), nullptr);
  unsetenv("UROCE_SYSFS");
}

TEST(Fork, ReportsWhetherItIsOn) {
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_ENABLED);
}

}  // namespace
}  // namespace uroce::dropin
