// The bytes of each message stay those of the protocol version, however the encoder changes.
#include <iterator>
#include <string>

#include <gtest/gtest.h>

#include "encoded_samples.h"
#include "message/cm_messages.h"
#include "samples.h"

namespace uroce::message {
namespace {

std::string hex_of(const std::vector<std::byte>& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const std::byte byte : bytes) {
    out += kDigits[static_cast<uint8_t>(byte) >> 4];
    out += kDigits[static_cast<uint8_t>(byte) & 15];
  }
  return out;
}

TEST(Encoding, EveryMessageKeepsItsBytes) {
  ASSERT_EQ(kProtocol, kEncodedProtocol) << "a new protocol version: encode the samples anew";
  const auto all = samples();
  ASSERT_EQ(all.size(), std::size(kEncodedSamples));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].name, kEncodedSamples[i].name);
    EXPECT_EQ(hex_of(all[i].bytes), kEncodedSamples[i].hex) << all[i].name;
    const char* const oldest = kEncodedSamples[i].oldest;
    EXPECT_EQ(hex_of(all[i].oldest), oldest != nullptr ? oldest : kEncodedSamples[i].hex) << all[i].name;
  }
}

TEST(Encoding, DecodedMessagesEncodeToTheSameBytes) {
  for (const Sample& sample : samples()) EXPECT_TRUE(sample.same_after_decoding()) << sample.name;
}

TEST(Encoding, OperationsKeepTheirNumbers) {
  const Op in_order[] = {Op::hello,
                         Op::open_device,
                         Op::create_pd,
                         Op::register_memory,
                         Op::create_channel,
                         Op::create_cq,
                         Op::create_srq,
                         Op::create_qp,
                         Op::modify_qp,
                         Op::query_qp,
                         Op::create_address_handle,
                         Op::attach_multicast,
                         Op::detach_multicast,
                         Op::destroy,
                         Op::counters,
                         Op::link_up,
                         Op::list_clients,
                         Op::list_objects,
                         Op::resize_cq,
                         Op::clock,
                         Op::reregister_memory,
                         Op::create_window,
                         Op::count_windows,
                         Op::query_gids,
                         Op::capture,
                         Op::list_users,
                         Op::list_peers,
                         Op::resize_srq,
                         Op::create_null_region,
                         Op::moderate_cq,
                         Op::barrier,
                         Op::list_engines,
                         Op::close_device};
  for (std::size_t i = 0; i < std::size(in_order); ++i) EXPECT_EQ(static_cast<std::size_t>(in_order[i]), i + 1);
  EXPECT_EQ(static_cast<std::size_t>(Op::create_flow), 34u);
  EXPECT_EQ(static_cast<std::size_t>(Op::flow_counters), 35u);
  EXPECT_EQ(static_cast<std::size_t>(Op::prepare_memory), 36u);
  EXPECT_EQ(static_cast<std::size_t>(Op::add_segments), 37u);
  EXPECT_EQ(static_cast<std::size_t>(Op::abandon_memory), 38u);
  const Op of_xrc[] = {Op::open_xrc_domain, Op::create_xrc_srq, Op::create_xrc_target, Op::open_xrc_target};
  for (std::size_t i = 0; i < std::size(of_xrc); ++i) EXPECT_EQ(static_cast<std::size_t>(of_xrc[i]), i + 40);
  EXPECT_EQ(static_cast<std::size_t>(Op::prove_raw_packets), 44u);
  EXPECT_EQ(static_cast<std::size_t>(Op::take_over), 45u);
  EXPECT_EQ(static_cast<std::size_t>(Op::list_history), 47u);
  EXPECT_EQ(static_cast<std::size_t>(Op::clear_faults), 50u);
  EXPECT_EQ(static_cast<std::size_t>(Op::list_left), 51u);
  const Op of_connections[] = {Op::cm_create_channel, Op::cm_destroy_channel,
                               Op::cm_take_events,    Op::cm_create_id,
                               Op::cm_destroy_id,     Op::cm_info,
                               Op::cm_bind,           Op::cm_resolve_addr,
                               Op::cm_resolve_route,  Op::cm_listen,
                               Op::cm_connect,        Op::cm_establish,
                               Op::cm_accept,         Op::cm_reject,
                               Op::cm_disconnect,     Op::cm_notify_established,
                               Op::cm_qp_attr,        Op::cm_set_option,
                               Op::cm_join,           Op::cm_leave,
                               Op::cm_migrate,        Op::cm_raise_event};
  for (std::size_t i = 0; i < std::size(of_connections); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(of_connections[i]), i + 64);
  }
}

}  // namespace
}  // namespace uroce::message
