#include "cm/ib/mad.h"

#include <cstring>

namespace uroce::cm {

namespace {

constexpr uint8_t kBaseVersion = 1;
constexpr uint8_t kClass = 0x07;
constexpr uint8_t kClassVersion = 2;
constexpr uint8_t kMethodSend = 0x03;

// Bits are numbered from the most significant bit, as in the specification's tables.
constexpr uint8_t bits(uint8_t byte, int from, int width) {
  return static_cast<uint8_t>(byte >> (8 - from - width)) & static_cast<uint8_t>((1u << width) - 1);
}
constexpr uint8_t at_bits(uint32_t value, int from, int width) {
  return static_cast<uint8_t>((value & ((1u << width) - 1)) << (8 - from - width));
}

Gid load_gid(const std::byte* p) {
  Gid gid;
  std::memcpy(gid.bytes.data(), p, gid.bytes.size());
  return gid;
}
void store_gid(std::byte* p, const Gid& gid) { std::memcpy(p, gid.bytes.data(), gid.bytes.size()); }

void store_data(std::byte* p, std::span<const std::byte> data, std::size_t most) {
  std::copy_n(data.begin(), std::min(data.size(), most), p);
}

}  // namespace

std::optional<MadHeader> parse_header(std::span<const std::byte> mad) {
  if (mad.size() != kMadBytes) return std::nullopt;
  const std::byte* p = mad.data();
  if (load8(p) != kBaseVersion || load8(p + 1) != kClass || load8(p + 2) != kClassVersion ||
      load8(p + 3) != kMethodSend) {
    return std::nullopt;
  }
  return MadHeader{static_cast<CmAttribute>(load_be16(p + 16)), load_be64(p + 8), load_be32(p + 20)};
}

void store_header(std::byte* mad, const MadHeader& header) {
  store8(mad, kBaseVersion);
  store8(mad + 1, kClass);
  store8(mad + 2, kClassVersion);
  store8(mad + 3, kMethodSend);
  store_be32(mad + 4, 0);  // status, class specific
  store_be64(mad + 8, header.transaction_id);
  store_be16(mad + 16, static_cast<uint16_t>(header.attribute));
  store_be16(mad + 18, 0);
  store_be32(mad + 20, header.modifier);
}

ReqMad ReqMad::load(const std::byte* p) {
  ReqMad m;
  m.local_id = load_be32(p);
  m.ece_vendor = load_be24(p + 5);
  m.service_id = load_be64(p + 8);
  m.ca_guid = load_be64(p + 16);
  m.qkey = load_be32(p + 28);
  m.qpn = load_be24(p + 32);
  m.responder_resources = load8(p + 35);
  m.initiator_depth = load8(p + 39);
  m.remote_cm_timeout = bits(load8(p + 43), 0, 5);
  m.transport = static_cast<CmTransport>(bits(load8(p + 43), 5, 2));
  m.flow_control = bits(load8(p + 43), 7, 1) != 0;
  m.psn = load_be24(p + 44);
  m.local_cm_timeout = bits(load8(p + 47), 0, 5);
  m.retry_count = bits(load8(p + 47), 5, 3);
  m.pkey = load_be16(p + 48);
  m.mtu = bits(load8(p + 50), 0, 4);
  m.rdc_exists = bits(load8(p + 50), 4, 1) != 0;
  m.rnr_retry_count = bits(load8(p + 50), 5, 3);
  m.max_cm_retries = bits(load8(p + 51), 0, 4);
  m.srq = bits(load8(p + 51), 4, 1) != 0;
  m.extended_transport = bits(load8(p + 51), 5, 3);
  m.local_lid = load_be16(p + 52);
  m.remote_lid = load_be16(p + 54);
  m.local_gid = load_gid(p + 56);
  m.remote_gid = load_gid(p + 72);
  m.flow_label = load_be32(p + 88) >> 12;
  m.packet_rate = bits(load8(p + 91), 2, 6);
  m.traffic_class = load8(p + 92);
  m.hop_limit = load8(p + 93);
  m.sl = bits(load8(p + 94), 0, 4);
  m.subnet_local = bits(load8(p + 94), 4, 1) != 0;
  m.ack_timeout = bits(load8(p + 95), 0, 5);
  m.has_alternate = load_gid(p + 100) != Gid{} || load_be16(p + 96) != 0;
  m.private_data = {p + 140, kReqPrivate};
  return m;
}

void ReqMad::store(std::byte* p) const {
  store_be32(p, local_id);
  store_be24(p + 5, ece_vendor);
  store_be64(p + 8, service_id);
  store_be64(p + 16, ca_guid);
  store_be32(p + 28, qkey);
  store_be24(p + 32, qpn);
  store8(p + 35, responder_resources);
  store8(p + 39, initiator_depth);
  store8(p + 43, at_bits(remote_cm_timeout, 0, 5) | at_bits(static_cast<uint8_t>(transport), 5, 2) |
                     at_bits(flow_control, 7, 1));
  store_be24(p + 44, psn);
  store8(p + 47, at_bits(local_cm_timeout, 0, 5) | at_bits(retry_count, 5, 3));
  store_be16(p + 48, pkey);
  store8(p + 50, at_bits(mtu, 0, 4) | at_bits(rdc_exists, 4, 1) | at_bits(rnr_retry_count, 5, 3));
  store8(p + 51, at_bits(max_cm_retries, 0, 4) | at_bits(srq, 4, 1) | at_bits(extended_transport, 5, 3));
  store_be16(p + 52, local_lid);
  store_be16(p + 54, remote_lid);
  store_gid(p + 56, local_gid);
  store_gid(p + 72, remote_gid);
  store_be32(p + 88, flow_label << 12 | (packet_rate & 0x3fu));
  store8(p + 92, traffic_class);
  store8(p + 93, hop_limit);
  store8(p + 94, at_bits(sl, 0, 4) | at_bits(subnet_local, 4, 1));
  store8(p + 95, at_bits(ack_timeout, 0, 5));
  store_data(p + 140, private_data, kReqPrivate);
}

MraMad MraMad::load(const std::byte* p) {
  return {load_be32(p),
          load_be32(p + 4),
          static_cast<CmAnswered>(bits(load8(p + 8), 0, 2)),
          bits(load8(p + 9), 0, 5),
          {p + 10, kMraPrivate}};
}

void MraMad::store(std::byte* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  store8(p + 8, at_bits(static_cast<uint8_t>(answered), 0, 2));
  store8(p + 9, at_bits(service_timeout, 0, 5));
  store_data(p + 10, private_data, kMraPrivate);
}

RejMad RejMad::load(const std::byte* p) {
  const std::size_t info_length = std::min<std::size_t>(bits(load8(p + 9), 0, 7), kRejInfo);
  return {load_be32(p),      load_be32(p + 4),      static_cast<CmAnswered>(bits(load8(p + 8), 0, 2)),
          load_be16(p + 10), {p + 12, info_length}, {p + 84, kRejPrivate}};
}

void RejMad::store(std::byte* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  store8(p + 8, at_bits(static_cast<uint8_t>(answered), 0, 2));
  store8(p + 9, at_bits(static_cast<uint32_t>(std::min(info.size(), kRejInfo)), 0, 7));
  store_be16(p + 10, reason);
  store_data(p + 12, info, kRejInfo);
  store_data(p + 84, private_data, kRejPrivate);
}

RepMad RepMad::load(const std::byte* p) {
  RepMad m;
  m.local_id = load_be32(p);
  m.remote_id = load_be32(p + 4);
  m.qkey = load_be32(p + 8);
  m.qpn = load_be24(p + 12);
  m.ee_context = load_be24(p + 16);
  m.ece_vendor = uint32_t{load8(p + 15)} << 16 | uint32_t{load8(p + 19)} << 8 | load8(p + 23);
  m.psn = load_be24(p + 20);
  m.responder_resources = load8(p + 24);
  m.initiator_depth = load8(p + 25);
  m.ack_delay = bits(load8(p + 26), 0, 5);
  m.failover = bits(load8(p + 26), 5, 2);
  m.flow_control = bits(load8(p + 26), 7, 1) != 0;
  m.rnr_retry_count = bits(load8(p + 27), 0, 3);
  m.srq = bits(load8(p + 27), 3, 1) != 0;
  m.ca_guid = load_be64(p + 28);
  m.private_data = {p + 36, kRepPrivate};
  return m;
}

void RepMad::store(std::byte* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  store_be32(p + 8, qkey);
  store_be24(p + 12, qpn);
  store_be24(p + 16, ee_context);
  store8(p + 15, static_cast<uint8_t>(ece_vendor >> 16));
  store8(p + 19, static_cast<uint8_t>(ece_vendor >> 8));
  store_be24(p + 20, psn);
  store8(p + 23, static_cast<uint8_t>(ece_vendor));
  store8(p + 24, responder_resources);
  store8(p + 25, initiator_depth);
  store8(p + 26, at_bits(ack_delay, 0, 5) | at_bits(failover, 5, 2) | at_bits(flow_control, 7, 1));
  store8(p + 27, at_bits(rnr_retry_count, 0, 3) | at_bits(srq, 3, 1));
  store_be64(p + 28, ca_guid);
  store_data(p + 36, private_data, kRepPrivate);
}

RtuMad RtuMad::load(const std::byte* p) { return {load_be32(p), load_be32(p + 4), {p + 8, kRtuPrivate}}; }

void RtuMad::store(std::byte* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  store_data(p + 8, private_data, kRtuPrivate);
}

DreqMad DreqMad::load(const std::byte* p) {
  return {load_be32(p), load_be32(p + 4), load_be24(p + 8), {p + 12, kDreqPrivate}};
}

void DreqMad::store(std::byte* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  store_be24(p + 8, remote_qpn);
  store_data(p + 12, private_data, kDreqPrivate);
}

DrepMad DrepMad::load(const std::byte* p) { return {load_be32(p), load_be32(p + 4), {p + 8, kDrepPrivate}}; }

void DrepMad::store(std::byte* p) const {
  store_be32(p, local_id);
  store_be32(p + 4, remote_id);
  store_data(p + 8, private_data, kDrepPrivate);
}

SidrReqMad SidrReqMad::load(const std::byte* p) {
  return {load_be32(p), load_be16(p + 4), load_be64(p + 8), {p + 16, kSidrReqPrivate}};
}

void SidrReqMad::store(std::byte* p) const {
  store_be32(p, request_id);
  store_be16(p + 4, pkey);
  store_be64(p + 8, service_id);
  store_data(p + 16, private_data, kSidrReqPrivate);
}

SidrRepMad SidrRepMad::load(const std::byte* p) {
  SidrRepMad m;
  m.request_id = load_be32(p);
  m.status = load8(p + 4);
  m.qpn = load_be24(p + 8);
  m.service_id = load_be64(p + 12);
  m.qkey = load_be32(p + 20);
  m.info = {p + 24, std::min<std::size_t>(load8(p + 5), kRejInfo)};
  m.private_data = {p + 96, kSidrRepPrivate};
  return m;
}

void SidrRepMad::store(std::byte* p) const {
  store_be32(p, request_id);
  store8(p + 4, status);
  store8(p + 5, static_cast<uint8_t>(std::min(info.size(), kRejInfo)));
  store_be24(p + 8, qpn);
  store_be64(p + 12, service_id);
  store_be32(p + 20, qkey);
  store_data(p + 24, info, kRejInfo);
  store_data(p + 96, private_data, kSidrRepPrivate);
}

}  // namespace uroce::cm
