#include "pmd_glue/ethdev_port.h"

#include <gtest/gtest.h>
#include <rte_ethdev.h>
#include <unistd.h>

#include "pmd_glue/card.h"
#include "pmd_glue/frame_size.h"
#include "ports.h"

namespace uroce::glue {
namespace {

PortOptions small_port(int mtu = 0) {
  PortOptions options;
  options.rx_descriptors = options.tx_descriptors = 128;
  options.mtu = mtu;
  return options;
}

/// A memif server, which waits for nobody, on a socket of its own.
std::string memif(const std::string& more) {
  static int count = 0;
  return "role=server,socket=/tmp/uroce-port-test-" + std::to_string(getpid()) + "-" + std::to_string(++count) + more;
}

TEST(Port, CarriesAFullPathMtuOnRings) {
  PortPair pair;
  EXPECT_EQ(pair.a->path_mtu(), Mtu::mtu4096);
  EXPECT_EQ(pair.a->driver(), "net_ring");
  EXPECT_EQ(pair.a->external(), ExternalMemory::never);
  EXPECT_TRUE(pair.a->link_up());
  EXPECT_NE(pair.a->mac(), pair.b->mac());
  EXPECT_NE(pair.a->mac(), EthAddr{});
  EXPECT_FALSE(pair.a->mac().is_multicast());
}

TEST(Port, KeepsTheMtuThatIsAsked) {
  PairOptions options;
  options.port.mtu = 1500;
  PortPair pair(options);
  EXPECT_EQ(pair.a->mtu(), 1500u);
  EXPECT_EQ(pair.a->path_mtu(), Mtu::mtu1024);
  EXPECT_EQ(pair.a->max_frame(), 1518u);
}

TEST(Port, RefusesAnMtuOutOfRange) {
  for (const int mtu : {1, 300, 9217, -1}) {
    auto rings = RingPair::make(1, 64).value();
    const auto port = EthdevPort::open(rings->ports()[0], small_port(mtu));
    ASSERT_FALSE(port) << mtu;
    EXPECT_EQ(port.error().code, EINVAL);
    EXPECT_NE(port.error().text.find(std::to_string(mtu)), std::string::npos) << port.error().text;
    EXPECT_NE(port.error().text.find("340"), std::string::npos) << port.error().text;
  }
}

TEST(Port, MemifCarriesWhatItsBuffersHold) {
  {
    Vdev vdev("net_memif_a", memif(",bsize=4352"));
    const auto port = EthdevPort::open(vdev.port(), small_port());
    ASSERT_TRUE(port) << port.error().text;
    EXPECT_EQ((*port)->path_mtu(), Mtu::mtu4096);
    EXPECT_EQ((*port)->external(), ExternalMemory::any);
    ASSERT_TRUE((*port)->start());
    EXPECT_FALSE((*port)->link_up()) << "the client is not there yet";
  }
  {
    Vdev vdev("net_memif_b", memif(""));
    const auto port = EthdevPort::open(vdev.port(), small_port());
    ASSERT_TRUE(port) << port.error().text;
    EXPECT_EQ((*port)->path_mtu(), Mtu::mtu1024) << "2048-byte buffers by default";
  }
}

TEST(Port, MemifGivesItsSocketBack) {
  const std::string args = memif("");
  for (int i = 0; i < 3; ++i) {
    Vdev vdev("net_memif_d", args);
    const auto port = EthdevPort::open(vdev.port(), small_port());
    ASSERT_TRUE(port) << "round " << i << ": " << port.error().text;
    EXPECT_TRUE((*port)->start());
  }
}

TEST(Port, NamesTheBufferThatAnMtuNeeds) {
  Vdev vdev("net_memif_c", memif(",bsize=4352"));
  const auto port = EthdevPort::open(vdev.port(), small_port(9000));
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().code, EINVAL);
  for (const char* part : {"net_memif_c", "9000", "4334", "bsize=9018"}) {
    EXPECT_NE(port.error().text.find(part), std::string::npos) << part << " in: " << port.error().text;
  }
}

TEST(Port, NamesTheRingThatAnMtuNeeds) {
  if (geteuid() != 0) GTEST_SKIP() << "packet sockets are root's";
  Vdev vdev("net_af_packet_a", "iface=lo,framesz=2048,blocksz=4096");
  const auto port = EthdevPort::open(vdev.port(), small_port(4200));
  ASSERT_FALSE(port);
  for (const char* part : {"net_af_packet_a", "4200", "framesz=8192", "blocksz=65536"}) {
    EXPECT_NE(port.error().text.find(part), std::string::npos) << part << " in: " << port.error().text;
  }
  Vdev other("net_af_packet_b", "iface=lo,framesz=2048,blocksz=4096");
  const auto plain = EthdevPort::open(other.port(), small_port());
  ASSERT_TRUE(plain) << plain.error().text;
  EXPECT_EQ((*plain)->path_mtu(), Mtu::mtu1024);
  EXPECT_TRUE((*plain)->start());
  EXPECT_TRUE((*plain)->link_up());
}

/// The tap driver of DPDK 22.11 takes an MTU of 1500 at most. Later ones take a full path MTU and more.
TEST(Port, FallsBackToTheTapDriversMtu) {
  if (geteuid() != 0 || access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "no tap devices here";
  rte_eth_dev_info info{};
  {
    Vdev vdev("net_tap_a", "iface=ura" + std::to_string(getpid()));
    ASSERT_EQ(rte_eth_dev_info_get(vdev.port(), &info), 0);
    const auto port = EthdevPort::open(vdev.port(), small_port(9000));
    ASSERT_EQ(port.has_value(), largest_mtu(info) >= 9000);
    if (!port) {
      EXPECT_NE(port.error().text.find("net_tap_a"), std::string::npos);
      EXPECT_NE(port.error().text.find("9000"), std::string::npos);
    }
  }
  Vdev vdev("net_tap_b", "iface=urb" + std::to_string(getpid()));
  const auto port = EthdevPort::open(vdev.port(), small_port());
  ASSERT_TRUE(port) << port.error().text;
  EXPECT_EQ((*port)->path_mtu(), largest_mtu(info) < kFullMtu ? Mtu::mtu1024 : Mtu::mtu4096);
  EXPECT_TRUE((*port)->start());
}

TEST(Port, TellsOfAMissingPort) {
  const auto port = EthdevPort::open(77, small_port());
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().code, ENODEV);
}

TEST(Port, SaysHowMuchMemoryItLacks) {
  auto rings = RingPair::make(1, 64).value();
  PortOptions options;
  options.engines = 64;
  const auto port = EthdevPort::open(rings->ports()[0], options);
  ASSERT_FALSE(port);
  EXPECT_EQ(port.error().code, ENOMEM);
  EXPECT_NE(port.error().text.find("-m"), std::string::npos) << port.error().text;
}

}  // namespace
}  // namespace uroce::glue
