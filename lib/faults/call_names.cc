#include "faults/call_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/comma_list.h"

namespace uroce::faults {

namespace {

using message::Op;

constexpr CallName kCalls[] = {
    {"alloc_pd", Op::create_pd, true},
    {"create_comp_channel", Op::create_channel, true},
    {"create_cq", Op::create_cq, true},
    {"create_srq", Op::create_srq, true},
    {"create_srq", Op::create_xrc_srq, true},
    {"create_qp", Op::create_qp, true},
    {"create_qp", Op::create_xrc_target, true},
    {"open_qp", Op::open_xrc_target, true},
    {"create_ah", Op::create_address_handle, true},
    {"reg_mr", Op::register_memory, true},
    {"reg_mr", Op::create_null_region, true},
    {"alloc_mw", Op::create_window, true},
    {"open_xrcd", Op::open_xrc_domain, true},
    {"create_flow", Op::create_flow, true},
    {"rdma_create_event_channel", Op::cm_create_channel, true},
    {"rdma_create_id", Op::cm_create_id, true},
    {"open_device", Op::open_device, false},
    {"resize_cq", Op::resize_cq, false},
    {"modify_cq", Op::moderate_cq, false},
    {"modify_srq", Op::resize_srq, false},
    {"rereg_mr", Op::reregister_memory, false},
    {"modify_qp", Op::modify_qp, false},
    {"query_qp", Op::query_qp, false},
    {"query_port", Op::link_up, false},
    {"attach_mcast", Op::attach_multicast, false},
    {"detach_mcast", Op::detach_multicast, false},
    {"rdma_bind_addr", Op::cm_bind, false},
    {"rdma_resolve_addr", Op::cm_resolve_addr, false},
    {"rdma_resolve_route", Op::cm_resolve_route, false},
    {"rdma_listen", Op::cm_listen, false},
    {"rdma_connect", Op::cm_connect, false},
    {"rdma_accept", Op::cm_accept, false},
    {"rdma_reject", Op::cm_reject, false},
    {"rdma_disconnect", Op::cm_disconnect, false},
    {"rdma_join_multicast", Op::cm_join, false},
};
static_assert(std::size(kCalls) <= kMostCalls);

constexpr std::pair<std::string_view, int> kErrors[] = {
    {"ENOMEM", ENOMEM},
    {"EINVAL", EINVAL},
    {"EAGAIN", EAGAIN},
    {"EBUSY", EBUSY},
    {"EPERM", EPERM},
    {"EACCES", EACCES},
    {"ENOSPC", ENOSPC},
    {"EMFILE", EMFILE},
    {"EIO", EIO},
    {"EINTR", EINTR},
    {"ENODEV", ENODEV},
    {"EFAULT", EFAULT},
    {"ETIMEDOUT", ETIMEDOUT},
    {"EOPNOTSUPP", EOPNOTSUPP},
    {"EADDRINUSE", EADDRINUSE},
    {"EADDRNOTAVAIL", EADDRNOTAVAIL},
    {"ENETUNREACH", ENETUNREACH},
    {"EHOSTUNREACH", EHOSTUNREACH},
    {"ECONNREFUSED", ECONNREFUSED},
};

bool is_named(std::string_view wanted, std::string_view name) {
  return wanted.ends_with('*') ? name.starts_with(wanted.substr(0, wanted.size() - 1)) : wanted == name;
}

std::string list_of(const auto& rows, auto name_of) {
  std::string out;
  std::string_view last;
  for (const auto& row : rows) {
    const std::string_view name = name_of(row);
    if (name != last) out += fmt::format("{}{}", out.empty() ? "" : ", ", name);
    last = name;
  }
  return out;
}

}  // namespace

std::span<const CallName> call_names() { return kCalls; }

Result<void> read_calls(std::string_view list, Rule& rule) {
  std::bitset<kMostCalls> calls;
  for (const std::string_view wanted : split_at_commas(list)) {
    const std::bitset<kMostCalls> before = calls;
    for (std::size_t i = 0; i < std::size(kCalls); ++i) {
      if (!wanted.empty() && is_named(wanted, kCalls[i].name)) calls.set(i);
    }
    if (calls != before) continue;
    return fail(EINVAL, fmt::format("'{}' is no call, or stands here twice; there are {}, and with * all that begin so",
                                    wanted, list_of(kCalls, [](const CallName& row) { return row.name; })));
  }
  rule.calls = calls;
  return {};
}

Result<int> read_error(std::string_view name) {
  for (const auto& [known, code] : kErrors) {
    if (name == known) return code;
  }
  return fail(EINVAL, fmt::format("it must be {}", list_of(kErrors, [](const auto& row) { return row.first; })));
}

}  // namespace uroce::faults
