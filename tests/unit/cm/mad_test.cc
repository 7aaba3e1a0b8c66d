// The codec, with frames that Linux sent, and with malformed ones.
#include "cm/ib/mad.h"

#include <gtest/gtest.h>

#include <map>

#include "cm/rdma_header.h"
#include "tests/support/cm_host.h"
#include "tests/support/pcap_file.h"
#include "wire/packet.h"

namespace uroce::cm {
namespace {

using test::bytes_of;

/// The MADs of the four connections in the capture.
std::vector<std::vector<std::byte>> captured_mads() {
  std::vector<std::vector<std::byte>> mads;
  for (const auto& frame : test::read_pcap(UROCE_TEST_DATA "/rxe_6.1.pcap")) {
    const auto packet = wire::parse(frame);
    if (packet && packet->bth.dest_qpn == 1) mads.emplace_back(packet->payload.begin(), packet->payload.end());
  }
  return mads;
}

template <class Message>
Mad again(const MadHeader& header, const std::vector<std::byte>& mad) {
  return make_mad(header.transaction_id, Message::load(mad.data() + kMadHeaderBytes), header.modifier);
}

TEST(Mad, CapturedFramesComeBackByteForByte) {
  std::map<CmAttribute, int> seen;
  for (const auto& mad : captured_mads()) {
    const auto header = parse_header(mad);
    ASSERT_TRUE(header);
    ++seen[header->attribute];
    Mad encoded{};
    switch (header->attribute) {
      case CmAttribute::req: encoded = again<ReqMad>(*header, mad); break;
      case CmAttribute::rep: encoded = again<RepMad>(*header, mad); break;
      case CmAttribute::rtu: encoded = again<RtuMad>(*header, mad); break;
      case CmAttribute::dreq: encoded = again<DreqMad>(*header, mad); break;
      case CmAttribute::drep: encoded = again<DrepMad>(*header, mad); break;
      default: FAIL() << "attribute " << static_cast<int>(header->attribute);
    }
    EXPECT_TRUE(std::equal(mad.begin(), mad.end(), encoded.begin(), encoded.end()))
        << "attribute " << static_cast<int>(header->attribute);
  }
  EXPECT_EQ(seen, (std::map<CmAttribute, int>{{CmAttribute::req, 4},
                                              {CmAttribute::rep, 4},
                                              {CmAttribute::rtu, 4},
                                              {CmAttribute::dreq, 6},
                                              {CmAttribute::drep, 5}}));
}

TEST(Mad, ReadsARequestOfLinux) {
  const auto mad = captured_mads().front();
  const auto header = parse_header(mad);
  ASSERT_TRUE(header && header->attribute == CmAttribute::req);
  EXPECT_EQ(header->transaction_id, 0x23e84703bu);
  const ReqMad req = ReqMad::load(mad.data() + kMadHeaderBytes);
  EXPECT_EQ(req.local_id, 0x3b70843eu);
  EXPECT_EQ(req.service_id, rdma_service_id(0x0106, 7174));
  EXPECT_EQ(req.ca_guid, 0x505400fffe000002u);
  EXPECT_EQ(req.qpn, 0x11u);
  EXPECT_EQ(req.responder_resources, 1);
  EXPECT_EQ(req.initiator_depth, 1);
  EXPECT_EQ(req.remote_cm_timeout, 20);
  EXPECT_EQ(req.local_cm_timeout, 20);
  EXPECT_EQ(req.transport, CmTransport::rc);
  EXPECT_FALSE(req.flow_control);
  EXPECT_EQ(req.psn, 0xe6fb43u);
  EXPECT_EQ(req.retry_count, 7);
  EXPECT_EQ(req.rnr_retry_count, 7);
  EXPECT_EQ(req.max_cm_retries, 15);
  EXPECT_EQ(req.pkey, 0xffff);
  EXPECT_EQ(req.mtu, 5);
  EXPECT_EQ(req.local_gid, Gid::from_ipv4(0x0a000002));
  EXPECT_EQ(req.remote_gid, Gid::from_ipv4(0x0a000001));
  EXPECT_EQ(req.flow_label, 0x948ffu);
  EXPECT_EQ(req.hop_limit, 64);
  EXPECT_EQ(req.ack_timeout, 19);
  EXPECT_FALSE(req.has_alternate);
  const auto rdma = RdmaHeader::parse(req.private_data);
  ASSERT_TRUE(rdma);
  EXPECT_EQ(rdma->ip_version, 4);
  EXPECT_EQ(rdma->source_port, 0xcfe7);
  EXPECT_EQ(rdma->source, Gid::from_ipv4(0x0a000002));
  EXPECT_EQ(rdma->destination, Gid::from_ipv4(0x0a000001));
}

/// Every field has its largest value, to show that none overwrites its neighbours.
TEST(Mad, FieldsKeepToTheirBits) {
  for (int which = 0; which < 12; ++which) {
    ReqMad req;
    if (which == 0) req.remote_cm_timeout = 0xff;
    if (which == 1) req.transport = CmTransport::extended;
    if (which == 2) req.flow_control = true;
    if (which == 3) req.local_cm_timeout = 0xff;
    if (which == 4) req.retry_count = 0xff;
    if (which == 5) req.mtu = 0xff;
    if (which == 6) req.rnr_retry_count = 0xff;
    if (which == 7) req.max_cm_retries = 0xff;
    if (which == 8) req.srq = true;
    if (which == 9) req.packet_rate = 0xff;
    if (which == 10) req.ece_vendor = 0xffffff;
    if (which == 11) req.flow_label = 0xfffff;
    const Mad mad = make_mad(1, req);
    const ReqMad back = ReqMad::load(mad.data() + kMadHeaderBytes);
    EXPECT_EQ(back.remote_cm_timeout, which == 0 ? 31 : 0);
    EXPECT_EQ(back.transport, which == 1 ? CmTransport::extended : CmTransport::rc);
    EXPECT_EQ(back.flow_control, which == 2);
    EXPECT_EQ(back.local_cm_timeout, which == 3 ? 31 : 0);
    EXPECT_EQ(back.retry_count, which == 4 ? 7 : 0);
    EXPECT_EQ(back.mtu, which == 5 ? 15 : 0);
    EXPECT_EQ(back.rnr_retry_count, which == 6 ? 7 : 0);
    EXPECT_EQ(back.max_cm_retries, which == 7 ? 15 : 0);
    EXPECT_EQ(back.srq, which == 8);
    EXPECT_EQ(back.packet_rate, which == 9 ? 63 : 0);
    EXPECT_EQ(back.ece_vendor, which == 10 ? 0xffffffu : 0u);
    EXPECT_EQ(back.flow_label, which == 11 ? 0xfffffu : 0u);
    EXPECT_EQ(back.local_id, 0u);
    EXPECT_EQ(back.service_id, 0u);
  }
}

TEST(Mad, EveryMessageComesBack) {
  const auto data = bytes_of("private");
  const auto info = bytes_of("information");
  const auto body = [](const Mad& mad) { return mad.data() + kMadHeaderBytes; };

  Mad mad = make_mad(7, MraMad{1, 2, CmAnswered::rep, 24, data});
  const MraMad mra = MraMad::load(body(mad));
  EXPECT_EQ(mra.answered, CmAnswered::rep);
  EXPECT_EQ(mra.service_timeout, 24);
  EXPECT_EQ(mra.private_data.size(), kMraPrivate);
  EXPECT_EQ(test::text_of(mra.private_data), "private");

  mad = make_mad(7, RejMad{1, 2, CmAnswered::other, 28, info, data});
  const RejMad rej = RejMad::load(body(mad));
  EXPECT_EQ(rej.answered, CmAnswered::other);
  EXPECT_EQ(rej.reason, 28);
  EXPECT_EQ(test::text_of(rej.info), "information");
  EXPECT_EQ(rej.info.size(), info.size());
  EXPECT_EQ(rej.private_data.size(), kRejPrivate);

  RepMad rep{.local_id = 1,
             .remote_id = 2,
             .qkey = 3,
             .qpn = 4,
             .ee_context = 0x654321,
             .ece_vendor = 0x123456,
             .psn = 0x789abc};
  rep.ack_delay = 31;
  rep.rnr_retry_count = 5;
  rep.srq = true;
  rep.failover = 1;
  mad = make_mad(7, rep, 99);
  const RepMad rep_back = RepMad::load(body(mad));
  EXPECT_EQ(parse_header(mad)->modifier, 99u);
  EXPECT_EQ(rep_back.ece_vendor, 0x123456u);
  EXPECT_EQ(rep_back.psn, 0x789abcu);
  EXPECT_EQ(rep_back.qpn, 4u);
  EXPECT_EQ(rep_back.ee_context, 0x654321u);
  EXPECT_EQ(rep_back.ack_delay, 31);
  EXPECT_EQ(rep_back.rnr_retry_count, 5);
  EXPECT_TRUE(rep_back.srq);
  EXPECT_FALSE(rep_back.flow_control);
  EXPECT_EQ(rep_back.failover, 1);

  mad = make_mad(7, SidrReqMad{1, 0x8001, 0x1110007, data});
  const SidrReqMad sidr_req = SidrReqMad::load(body(mad));
  EXPECT_EQ(sidr_req.pkey, 0x8001);
  EXPECT_EQ(sidr_req.service_id, 0x1110007u);
  EXPECT_EQ(sidr_req.private_data.size(), kSidrReqPrivate);

  mad = make_mad(7, SidrRepMad{1, 2, 0x111, 0x1110007, 0x1234567, info, data});
  const SidrRepMad sidr_rep = SidrRepMad::load(body(mad));
  EXPECT_EQ(sidr_rep.status, 2);
  EXPECT_EQ(sidr_rep.qpn, 0x111u);
  EXPECT_EQ(sidr_rep.qkey, 0x1234567u);
  EXPECT_EQ(sidr_rep.service_id, 0x1110007u);
  EXPECT_EQ(test::text_of(sidr_rep.info), "information");
  EXPECT_EQ(test::text_of(sidr_rep.private_data), "private");
}

TEST(Mad, ALengthBeyondTheFieldIsCut) {
  Mad mad = make_mad(7, RejMad{1, 2, CmAnswered::req, 28, {}, {}});
  store8(mad.data() + kMadHeaderBytes + 9, 127 << 1);
  EXPECT_EQ(RejMad::load(mad.data() + kMadHeaderBytes).info.size(), kRejInfo);
  mad = make_mad(7, SidrRepMad{});
  store8(mad.data() + kMadHeaderBytes + 5, 255);
  EXPECT_EQ(SidrRepMad::load(mad.data() + kMadHeaderBytes).info.size(), kRejInfo);
}

TEST(Mad, OtherHeadersAreRejected) {
  const Mad good = make_mad(7, RtuMad{1, 2, {}});
  EXPECT_TRUE(parse_header(good));
  EXPECT_FALSE(parse_header(std::span(good).first(255)));
  EXPECT_FALSE(parse_header({}));
  for (std::size_t at = 0; at < 4; ++at) {
    Mad bad = good;
    store8(bad.data() + at, 0x81);
    EXPECT_FALSE(parse_header(bad)) << "byte " << at;
  }
  std::vector<std::byte> longer(good.begin(), good.end());
  longer.push_back({});
  EXPECT_FALSE(parse_header(longer));
}

TEST(RdmaHeader, BothFamiliesComeBack) {
  for (const RdmaHeader& header : {RdmaHeader{4, 4000, Gid::from_ipv4(0xc0000201), Gid::from_ipv4(0xc0000202)},
                                   RdmaHeader{6, 0xffff, Gid{{0x20, 1, 13}}, Gid{{0xfe, 0x80, 1}}}}) {
    std::array<std::byte, RdmaHeader::kBytes> bytes;
    bytes.fill(std::byte{0xff});
    header.store(bytes.data());
    const auto back = RdmaHeader::parse(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->ip_version, header.ip_version);
    EXPECT_EQ(back->source_port, header.source_port);
    EXPECT_EQ(back->source, header.source);
    EXPECT_EQ(back->destination, header.destination);
  }
}

TEST(RdmaHeader, RejectsOtherData) {
  std::array<std::byte, RdmaHeader::kBytes> bytes{};
  EXPECT_FALSE(RdmaHeader::parse(bytes)) << "IP version 0";
  store8(bytes.data() + 1, 0x40);
  EXPECT_TRUE(RdmaHeader::parse(bytes));
  EXPECT_FALSE(RdmaHeader::parse(std::span(bytes).first(35)));
  store8(bytes.data() + 1, 0x50);
  EXPECT_FALSE(RdmaHeader::parse(bytes));
  store8(bytes.data() + 1, 0x60);
  store8(bytes.data(), 1);
  EXPECT_FALSE(RdmaHeader::parse(bytes)) << "header version 1";
}

}  // namespace
}  // namespace uroce::cm
