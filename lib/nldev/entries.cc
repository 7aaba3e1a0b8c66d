#include "nldev/entries.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

namespace uroce::nldev {

namespace {

std::string_view text_of(const Object& object, std::string_view name) {
  const auto found = std::ranges::find(object.values, name, [](const auto& value) { return value.first; });
  return found == object.values.end() ? std::string_view{} : found->second;
}

/// Decimal, or hexadecimal after "0x".
std::optional<uint64_t> number_of(const Object& object, std::string_view name) {
  std::string_view text = text_of(object, name);
  const int base = text.starts_with("0x") ? 16 : 10;
  if (base == 16) text.remove_prefix(2);
  uint64_t out = 0;
  const auto [rest, failed] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  if (failed != std::errc{} || rest != text.data() + text.size()) return std::nullopt;
  return out;
}

uint32_t u32_of(const Object& object, std::string_view name) {
  return static_cast<uint32_t>(number_of(object, name).value_or(0));
}

/// The type as <infiniband/verbs.h> numbers it, which is the kernel's number.
uint8_t qp_type(std::string_view name) {
  constexpr std::pair<std::string_view, ibv_qp_type> kTypes[] = {{"RC", IBV_QPT_RC},
                                                                 {"UC", IBV_QPT_UC},
                                                                 {"UD", IBV_QPT_UD},
                                                                 {"RAW_PACKET", IBV_QPT_RAW_PACKET},
                                                                 {"XRC_INI", IBV_QPT_XRC_SEND},
                                                                 {"XRC_TGT", IBV_QPT_XRC_RECV}};
  const auto found = std::ranges::find(kTypes, name, [](const auto& type) { return type.first; });
  return static_cast<uint8_t>(found == std::end(kTypes) ? IBV_QPT_DRIVER : found->second);
}

/// An engine that does not answer gives no state.
uint8_t qp_state(std::string_view name) {
  constexpr std::array<std::string_view, 7> kStates = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"};
  const auto found = std::ranges::find(kStates, name);
  return static_cast<uint8_t>(found == kStates.end() ? std::ptrdiff_t{IBV_QPS_ERR} : found - kStates.begin());
}

void add_qp(const Object& object, Attributes& out) {
  const uint8_t type = qp_type(text_of(object, "type")), state = qp_state(text_of(object, "state"));
  if (state != IBV_QPS_RESET) out.push_back({RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}});
  out.push_back({RDMA_NLDEV_ATTR_RES_LQPN, u32_of(object, "qpn")});
  if (type == IBV_QPT_RC || type == IBV_QPT_UC) {
    out.push_back({RDMA_NLDEV_ATTR_RES_RQPN, u32_of(object, "dest_qpn")});
    out.push_back({RDMA_NLDEV_ATTR_RES_RQ_PSN, u32_of(object, "rq_psn")});
  }
  out.push_back({RDMA_NLDEV_ATTR_RES_SQ_PSN, u32_of(object, "sq_psn")});
  if (type != IBV_QPT_UD && type != IBV_QPT_RAW_PACKET) {
    out.push_back({RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, uint8_t{IBV_MIG_MIGRATED}});
  }
  out.push_back({RDMA_NLDEV_ATTR_RES_TYPE, type});
  out.push_back({RDMA_NLDEV_ATTR_RES_STATE, state});
}

void add_mr(const Object& object, Attributes& out) {
  if (const auto key = number_of(object, "key")) {
    out.push_back({RDMA_NLDEV_ATTR_RES_RKEY, static_cast<uint32_t>(*key)});
    out.push_back({RDMA_NLDEV_ATTR_RES_LKEY, static_cast<uint32_t>(*key)});
  }
  out.push_back({RDMA_NLDEV_ATTR_RES_MRLEN, number_of(object, "length").value_or(0)});
  out.push_back({RDMA_NLDEV_ATTR_RES_MRN, object.id});
}

/// "192.0.2.1:80" or "[2001:db8::1]:80" as a sockaddr_storage; empty where it is neither.
Bytes address_of(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  uint16_t port = 0;
  if (colon == text.npos || std::from_chars(text.data() + colon + 1, text.data() + text.size(), port).ec != std::errc{})
    return {};
  const bool v6 = text.starts_with('[');
  const std::string host(v6 ? text.substr(1, colon - 2) : text.substr(0, colon));
  sockaddr_storage out{};
  out.ss_family = v6 ? AF_INET6 : AF_INET;
  auto& in4 = reinterpret_cast<sockaddr_in&>(out);
  auto& in6 = reinterpret_cast<sockaddr_in6&>(out);
  (v6 ? in6.sin6_port : in4.sin_port) = htons(port);
  void* const address = v6 ? static_cast<void*>(&in6.sin6_addr) : &in4.sin_addr;
  if (inet_pton(out.ss_family, host.c_str(), address) != 1) return {};
  const auto* const bytes = reinterpret_cast<const std::byte*>(&out);
  return {bytes, bytes + sizeof out};
}

/// The states of the kernel's rdma_cm_state, by number.
uint8_t cm_state(std::string_view name) {
  constexpr std::array<std::string_view, 9> kStates = {"IDLE",        "ADDR_QUERY",     "ADDR_RESOLVED",
                                                       "ROUTE_QUERY", "ROUTE_RESOLVED", "CONNECT",
                                                       "DISCONNECT",  "ADDR_BOUND",     "LISTEN"};
  const auto found = std::ranges::find(kStates, name);
  return static_cast<uint8_t>(found == kStates.end() ? 0 : found - kStates.begin());
}

void add_cm_id(const Object& object, Attributes& out) {
  out.push_back({RDMA_NLDEV_ATTR_PORT_INDEX, uint32_t{1}});
  if (const auto qpn = number_of(object, "qpn")) {
    out.push_back({RDMA_NLDEV_ATTR_RES_LQPN, static_cast<uint32_t>(*qpn)});
    out.push_back({RDMA_NLDEV_ATTR_RES_TYPE, qp_type(text_of(object, "type"))});
  }
  out.push_back({RDMA_NLDEV_ATTR_RES_PS, u32_of(object, "space")});
  out.push_back({RDMA_NLDEV_ATTR_RES_STATE, cm_state(text_of(object, "state"))});
  for (const auto& [name, type] :
       {std::pair{"local", RDMA_NLDEV_ATTR_RES_SRC_ADDR}, std::pair{"remote", RDMA_NLDEV_ATTR_RES_DST_ADDR}}) {
    Bytes address = address_of(text_of(object, name));
    if (!address.empty()) out.push_back({static_cast<uint16_t>(type), std::move(address)});
  }
  out.push_back({RDMA_NLDEV_ATTR_RES_CM_IDN, object.id});
}

}  // namespace

Attributes entry_of(Table table, const Object& object) {
  Attributes out;
  const Attribute users{RDMA_NLDEV_ATTR_RES_USECNT, number_of(object, "users").value_or(0)};
  const Attribute context{RDMA_NLDEV_ATTR_RES_CTXN, object.client};
  switch (table) {
    case Table::pd: out = {{RDMA_NLDEV_ATTR_RES_PDN, object.id}, users, context}; break;
    case Table::cq:
      out = {{RDMA_NLDEV_ATTR_RES_CQE, u32_of(object, "entries")},
             users,
             {RDMA_NLDEV_ATTR_RES_CQN, u32_of(object, "cq")},
             context};
      break;
    case Table::qp: add_qp(object, out); break;
    case Table::cm_id: add_cm_id(object, out); break;
    case Table::mr: add_mr(object, out); break;
    case Table::ctx: out = {context}; break;
    case Table::srq: {
      const auto type = static_cast<uint8_t>(text_of(object, "type") == "XRC" ? IBV_SRQT_XRC : IBV_SRQT_BASIC);
      out = {{RDMA_NLDEV_ATTR_RES_SRQN, u32_of(object, "srq")},
             {RDMA_NLDEV_ATTR_RES_TYPE, type},
             {RDMA_NLDEV_ATTR_RES_QP, Bytes{}}};  // its queue pairs: not listed
      break;
    }
  }
  out.push_back({RDMA_NLDEV_ATTR_RES_PID, object.process});
  return out;
}

}  // namespace uroce::nldev
