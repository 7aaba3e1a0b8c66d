#include "service/operation_table.h"

#include <algorithm>
#include <chrono>

#include <poll.h>

#include <uroce/version.h>

#include "service/cm_operations.h"
#include "service/device_operations.h"
#include "service/memory_operations.h"
#include "service/object_operations.h"
#include "service/operator_operations.h"
#include "service/qp_operations.h"
#include "service/xrc_operations.h"

namespace uroce::service {
namespace {

using message::Op;

constexpr Operation kOperations[] = {
    {Op::hello, Needs::nothing, serve<message::Hello, hello>},
    {Op::barrier, Needs::hello, serve<message::Empty, barrier>},
    {Op::prove_raw_packets, Needs::hello, serve<message::Empty, prove_raw_packets>},
    {Op::open_device, Needs::hello, serve<message::OpenDevice, open_device>},
    {Op::close_device, Needs::device, serve<message::Empty, close_device>},
    {Op::counters, Needs::device, serve<message::Empty, counters>},
    {Op::clock, Needs::device, serve<message::Empty, clock>},
    {Op::query_gids, Needs::device, serve<message::Empty, query_gids>},
    {Op::link_up, Needs::device, serve<message::Empty, link_up>},

    {Op::list_clients, Needs::hello, serve<message::ListClients, list_clients>},
    {Op::list_users, Needs::hello, serve<message::ListUsers, list_users>},
    {Op::list_peers, Needs::hello, serve<message::ListPeers, list_peers>},
    {Op::list_history, Needs::hello, serve<message::ListHistory, list_history>},
    {Op::list_left, Needs::hello, serve<message::ListLeft, list_left>},
    {Op::list_engines, Needs::hello, serve<message::Empty, list_engines>},
    {Op::list_objects, Needs::hello, serve<message::ListObjects, list_objects>},
    {Op::capture, Needs::hello, serve<message::OpenDevice, start_capture>},
    {Op::list_faults, Needs::hello, serve<message::ListFaults, list_faults>},
    {Op::add_faults, Needs::hello, serve<message::AddFaults, add_faults>},
    {Op::clear_faults, Needs::hello, serve<message::ClearFaults, clear_faults>},
    {Op::restart, Needs::hello, serve<message::Empty, restart_row>},
    {Op::take_over, Needs::hello, serve<message::TakeOver, take_over>},

    {Op::create_pd, Needs::device, serve<message::Empty, create_pd>},
    {Op::create_channel, Needs::device, serve<message::Empty, create_channel>},
    {Op::create_cq, Needs::device, serve<message::CreateCq, create_cq>},
    {Op::resize_cq, Needs::device, serve<message::ResizeCq, resize_cq>},
    {Op::moderate_cq, Needs::device, serve<message::ModerateCq, moderate_cq>},
    {Op::create_srq, Needs::device, serve<message::CreateSrq, create_srq>},
    {Op::resize_srq, Needs::device, serve<message::ResizeSrq, resize_srq>},
    {Op::create_address_handle, Needs::device, serve<message::CreateAddressHandle, create_address_handle>},
    {Op::destroy, Needs::device, serve<message::Destroy, destroy>},

    {Op::register_memory, Needs::device, serve<message::RegisterMemory, register_memory>},
    {Op::prepare_memory, Needs::device, serve<message::PrepareMemory, prepare_memory>},
    {Op::add_segments, Needs::device, serve<message::AddSegments, add_segments>},
    {Op::abandon_memory, Needs::device, serve<message::Empty, abandon_memory>},
    {Op::reregister_memory, Needs::device, serve<message::ReregisterMemory, reregister_memory>},
    {Op::create_null_region, Needs::device, serve<message::Handle, create_null_region>},
    {Op::create_window, Needs::device, serve<message::CreateWindow, create_window>},
    {Op::count_windows, Needs::device, serve<message::Handle, count_windows>},

    {Op::create_qp, Needs::device, serve<message::CreateQp, create_qp>},
    {Op::modify_qp, Needs::device, serve<message::ModifyQp, modify_qp>},
    {Op::query_qp, Needs::device, serve<message::Handle, query_qp>},
    {Op::attach_multicast, Needs::device, serve<message::Multicast, attach_multicast>},
    {Op::detach_multicast, Needs::device, serve<message::Multicast, detach_multicast>},
    {Op::create_flow, Needs::device, serve<message::CreateFlow, create_flow>},
    {Op::flow_counters, Needs::device, serve<message::Handle, flow_counters>},

    {Op::open_xrc_domain, Needs::device, serve<message::OpenXrcDomain, open_xrc_domain>},
    {Op::create_xrc_srq, Needs::device, serve<message::CreateXrcSrq, create_xrc_srq>},
    {Op::create_xrc_target, Needs::device, serve<message::CreateXrcTarget, create_xrc_target>},
    {Op::open_xrc_target, Needs::device, serve<message::OpenXrcTarget, open_xrc_target>},

    {Op::cm_create_channel, Needs::connection_manager, serve<message::Empty, cm_create_channel>},
    {Op::cm_destroy_channel, Needs::connection_manager, serve<message::Handle, cm_destroy_channel>},
    {Op::cm_take_events, Needs::connection_manager, serve<message::Handle, cm_take_events>},
    {Op::cm_create_id, Needs::connection_manager, serve<message::CmCreateId, cm_create_id>},
    {Op::cm_destroy_id, Needs::connection_manager, serve<message::Handle, cm_destroy_id>},
    {Op::cm_info, Needs::connection_manager, serve<message::Handle, cm_info>},
    {Op::cm_bind, Needs::connection_manager, serve<message::CmBind, cm_bind>},
    {Op::cm_resolve_addr, Needs::connection_manager, serve<message::CmResolve, cm_resolve_addr>},
    {Op::cm_resolve_route, Needs::connection_manager, serve<message::Handle, cm_resolve_route>},
    {Op::cm_listen, Needs::connection_manager, serve<message::CmListen, cm_listen>},
    {Op::cm_connect, Needs::connection_manager, serve<message::CmTerms, cm_connect>},
    {Op::cm_establish, Needs::connection_manager, serve<message::Handle, cm_establish>},
    {Op::cm_accept, Needs::connection_manager, serve<message::CmTerms, cm_accept>},
    {Op::cm_reject, Needs::connection_manager, serve<message::CmReject, cm_reject>},
    {Op::cm_disconnect, Needs::connection_manager, serve<message::CmDisconnect, cm_disconnect>},
    {Op::cm_notify_established, Needs::connection_manager, serve<message::Handle, cm_notify_established>},
    {Op::cm_qp_attr, Needs::connection_manager, serve<message::CmQpAttr, cm_qp_attr>},
    {Op::cm_set_option, Needs::connection_manager, serve<message::CmSetOption, cm_set_option>},
    {Op::cm_join, Needs::connection_manager, serve<message::CmGroup, cm_join>},
    {Op::cm_leave, Needs::connection_manager, serve<message::CmGroup, cm_leave>},
    {Op::cm_migrate, Needs::connection_manager, serve<message::CmMigrate, cm_migrate>},
    {Op::cm_raise_event, Needs::connection_manager, serve<message::CmRaiseEvent, cm_raise_event>},
};

Result<void> provide(ClientState& client, Needs needs) {
  switch (needs) {
    case Needs::nothing:
    case Needs::hello: return {};
    case Needs::device:
      if (client.session != nullptr) return {};
      return fail(EINVAL, "no device is open under this number; open one first");
    case Needs::connection_manager: return open_connection_manager(client.program);
  }
  return {};
}

/// Waits, but not for a program that goes, or that the daemon disconnects.
void wait_unless_gone(const Program& program, std::chrono::nanoseconds time) {
  pollfd connection{.fd = program.socket, .events = POLLRDHUP, .revents = 0};
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(time);
  (void)poll(&connection, 1, static_cast<int>(milliseconds.count()));
}

/// Fault rules. A call without an answer is none of theirs: its program could not be told.
Result<void> suffer_faults(const ClientState& client, const Call& call) {
  Faults* const faults = client.server.ports().faults.get();
  if (faults == nullptr || !call.answered) return {};
  std::string_view device;
  if (client.session != nullptr) device = client.session->device()->config().name;
  const auto fault = faults->on_call(call.op, device, client.peer.command, client.peer.pid);
  if (!fault) return {};
  if (fault->delay.count() != 0) wait_unless_gone(client.program, fault->delay);
  return fault->error == 0 ? Result<void>() : fail(fault->error, fault->text);
}

}  // namespace

const Operation* find_operation(Op op) {
  const auto* found = std::ranges::find(kOperations, op, &Operation::op);
  return found != std::end(kOperations) ? found : nullptr;
}

Result<Reply> serve_call(ClientState& client, Call& call) {
  if (!client.program.greeted && call.op != Op::hello) {
    call.malformed = true;
    return fail(EPROTO, "the first message must be a hello");
  }
  const Operation* operation = find_operation(call.op);
  if (auto ready = provide(client, operation != nullptr ? operation->needs : Needs::device); !ready) {
    return std::unexpected(ready.error());
  }
  if (operation == nullptr) {
    return fail(EOPNOTSUPP, fmt::format("this daemon, uroced {}, has no operation {}; a newer one may have it",
                                        kVersion, static_cast<uint32_t>(call.op)));
  }
  if (auto spared = suffer_faults(client, call); !spared) return std::unexpected(spared.error());
  return operation->serve(client, call);
}

}  // namespace uroce::service
