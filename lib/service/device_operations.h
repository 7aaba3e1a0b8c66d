// Operations on a connection and its device as a whole.
#pragma once

#include "message/device_messages.h"
#include "message/hello_messages.h"
#include "service/operation.h"

namespace uroce::service {

/// Counters of the engines, the port and the connection manager. Any thread.
std::vector<std::pair<std::string, uint64_t>> counters_of(const ServerView& server, const control::Device& device);
/// Those of the device and its port.
std::vector<std::pair<std::string, uint64_t>> port_counters_of(const ServerView& server, const control::Device& device);

Result<Reply> hello(ClientState& client, const message::Hello& request, Call& call);
/// Nothing: requests are served in order, so all before this one are done.
/// The descriptor of a packet socket proves CAP_NET_RAW. Errors: as check_packet_socket().
Result<Reply> prove_raw_packets(ClientState& client, const message::Empty& request, Call& call);
Result<Reply> barrier(ClientState& client, const message::Empty& request);
/// An arena for the queues of the device, without memory yet.
std::shared_ptr<Arena> make_arena(const ClientState& client);
Result<Reply> open_device(ClientState& client, const message::OpenDevice& request);
Result<Reply> close_device(ClientState& client, const message::Empty& request);
Result<Reply> counters(ClientState& client, const message::Empty& request);
Result<Reply> clock(ClientState& client, const message::Empty& request);
Result<Reply> query_gids(ClientState& client, const message::Empty& request);
Result<Reply> link_up(ClientState& client, const message::Empty& request);

}  // namespace uroce::service
