// Registered memory and memory windows.
#pragma once

#include <memory>

#include "message/memory_messages.h"
#include "service/operation.h"

namespace uroce::service {

Result<Reply> register_memory(ClientState& client, const message::RegisterMemory& request, Call& call);
Result<Reply> reregister_memory(ClientState& client, const message::ReregisterMemory& request, Call& call);
/// A registration in several messages: its first ones.
Result<Reply> prepare_memory(ClientState& client, const message::PrepareMemory& request);
Result<Reply> add_segments(ClientState& client, const message::AddSegments& request, Call& call);
Result<Reply> abandon_memory(ClientState& client, const message::Empty& request);
Result<Reply> create_null_region(ClientState& client, const message::Handle& request);
Result<Reply> create_window(ClientState& client, const message::CreateWindow& request);
Result<Reply> count_windows(ClientState& client, const message::Handle& request);

/// Charges what a region takes, and begins its mapping. `populate`: as MappingRules. Errors: as User::charge() and
/// MappingBuilder::begin().
Result<PreparedMemory> begin_mapping(ClientState& client, const message::PrepareMemory& wanted, bool populate = true);

/// Removes the region from the client's table and totals; the caller destroys it.
Result<std::shared_ptr<ClientRegion>> take_region(ClientState& client, uint32_t id);
/// Removes the keys of regions whose pages the client has removed. Any thread.
void retire_broken_regions(ClientState& client);
/// Puts zero pages in the place of the client's registered memory that it can remove. Whether there was any, or queues
/// that it can remove. Any thread.
bool break_punchable_regions(ClientState& client);
/// Whether the client has removed pages of its queues. Any thread.
bool queues_are_broken(const ClientState& client);

}  // namespace uroce::service
