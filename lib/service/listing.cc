#include "service/listing.h"

#include <algorithm>
#include <iterator>

#include "message/protocol.h"
#include "service/object_rows.h"
#include "service/operator_operations.h"

namespace uroce::service {
namespace {

constexpr std::size_t kRowsPerReply = 200;
/// Bytes of a reply's rows, so that the reply fits a packet.
constexpr std::size_t kBytesOfRows = message::kMaxPacket - 4096;

/// As many rows as fit.
void cut_to_size(auto& rows) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    message::encode(bytes, rows.rows[i]);
    if (bytes.size() <= kBytesOfRows || i == 0) continue;
    rows.rows.resize(i);
    rows.more = true;
  }
}

}  // namespace

Listed listed(const Clients& clients) {
  Listed out;
  for (const auto& client : clients) std::ranges::move(client->listed(), std::back_inserter(out));
  std::ranges::sort(out, {}, &ClientState::id);
  return out;
}

std::vector<message::ClientRow> all_rows(const Listed& clients) {
  std::vector<message::ClientRow> rows;
  for (const ClientState* device : clients) rows.push_back(row_of(*device));
  return rows;
}

message::ClientRows client_rows(const Listed& clients, uint32_t after, const Sight& sight) {
  message::ClientRows out;
  for (const ClientState* device : clients) {
    if (device->id <= after || !sight.client_of(device->peer.uid)) continue;
    out.more = out.rows.size() == kRowsPerReply;
    if (out.more) break;
    out.rows.push_back(row_of(*device));
  }
  return out;
}

message::UserRows user_rows(const Users& users, uint64_t after, const Sight& sight) {
  message::UserRows out{.rows = users.rows(sight)};
  std::erase_if(out.rows, [after](const message::UserRow& row) { return row.key() <= after; });
  cut_to_size(out);
  return out;
}

message::ObjectRows object_rows(const Listed& clients, const message::ListObjects& request, const Sight& sight) {
  message::ObjectRows out;
  for (const ClientState* device : clients) {
    if (device->id < request.after_client || !sight.client_of(device->peer.uid)) continue;
    const uint32_t after = device->id == request.after_client ? request.after_id : 0;
    if (out.rows.size() == kRowsPerReply) {
      out.more = true;
      break;
    }
    const std::size_t room = kRowsPerReply - out.rows.size();
    auto rows = object_rows_of(*device, request.kind, after, room, sight);
    out.more = rows.size() == room;
    std::ranges::move(rows, std::back_inserter(out.rows));
  }
  cut_to_size(out);
  return out;
}

}  // namespace uroce::service
