#include "service/client.h"

#include <cerrno>
#include <new>
#include <system_error>

#include <poll.h>
#include <unistd.h>

#include <fmt/format.h>

#include "service/memory_operations.h"
#include "service/operation_table.h"
#include "service/operator_operations.h"

namespace uroce::service {
namespace {

constexpr std::chrono::seconds kSendTimeout{5};
constexpr int kHelloTimeoutMs = 5000;
/// The socket, the pipe of asynchronous events, and pieces of queue memory, each twice as large as the last.
constexpr uint64_t kDescriptorsOfConnection = 8;
/// Requests without a reply that are served before the asynchronous events are looked after.
constexpr uint32_t kMostInARow = 32;

}  // namespace

Client::Client(ServerView& server, message::Connection connection, uint32_t id, Peer peer, std::shared_ptr<User> user)
    : state_(server, id, std::move(peer), std::move(user)), connection_(std::move(connection)) {
  // A client that does not read its replies blocks only its own thread, for a bounded time.
  connection_.set_timeouts(kSendTimeout, kSendTimeout);
}

Client::~Client() { end(); }

Result<void> Client::admit() {
  auto connection = state_.charge(Resource::connection);
  if (!connection) return std::unexpected(connection.error());
  auto descriptors = state_.charge(Resource::descriptor, kDescriptorsOfConnection);
  if (!descriptors) return std::unexpected(descriptors.error());
  state_.connection = std::move(*connection);
  state_.descriptors = std::move(*descriptors);
  return {};
}

Result<void> Client::start() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return fail(EAGAIN, fmt::format("client {} ({}, process {}) is refused: cannot start a thread: {}; raise the limit "
                                    "(TasksMax)",
                                    state_.id, state_.peer.command, state_.peer.pid, error.what()));
  }
  return {};
}

void Client::end() {
  disconnect();
  if (thread_.joinable()) thread_.join();
}

void Client::run() {
  std::string why;
  try {
    while (serve(why)) {
    }
  } catch (const std::bad_alloc&) {
    why = "the daemon has no memory for its request";
  }
  if (!why.empty()) {
    state_.server.log_of_client(state_.peer.uid, Severity::warning,
                                fmt::format("client {} ({}, process {}) is disconnected: {}", state_.id,
                                            state_.peer.command, state_.peer.pid, why));
  }
  disconnect();
  release();
  done_.store(true, std::memory_order_release);
  state_.server.finished();
}

bool Client::serve(std::string& why) {
  auto packet = next_packet();
  if (!packet) {
    if (packet.error().code != ECONNRESET) why = packet.error().text;
    return false;
  }
  return !packet->has_value() || serve(**packet, why);
}

Result<std::optional<message::Packet>> Client::next_packet() {
  // A program that waits for no reply has often sent more. Its events must not wait for the last of them.
  if (in_a_row_ > 0 && in_a_row_ < kMostInARow) {
    auto packet = connection_.receive_now();
    if (!packet || packet->has_value()) return packet;
  }
  in_a_row_ = 0;
  pollfd waiting[2] = {{.fd = connection_.fd(), .events = POLLIN, .revents = 0},
                       {.fd = state_.session ? state_.session->events().fd() : -1, .events = POLLIN, .revents = 0}};
  const int ready = poll(waiting, 2, state_.greeted ? -1 : kHelloTimeoutMs);
  if (ready < 0 && errno == EINTR) return std::nullopt;
  if (ready == 0) return fail(ETIMEDOUT, fmt::format("no hello came within {} ms", kHelloTimeoutMs));
  if ((waiting[1].revents & POLLIN) != 0) forward_events();
  if (waiting[0].revents == 0) return std::nullopt;
  return connection_.receive();
}

bool Client::serve(const message::Packet& packet, std::string& why) {
  message::Reader reader(packet.bytes);
  message::RequestHeader header;
  reader(header);
  if (!reader.good()) {
    why = fmt::format("a message of {} bytes is shorter than a header", packet.bytes.size());
    return false;
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (refusal_) {
    (void)send(header.sequence, std::unexpected(*refusal_));
    return false;
  }
  Call call{.op = header.op, .body = reader.rest(), .fds = packet.fds};
  const auto answer = serve_call(state_, call);
  if (!answer) errors_.fetch_add(1, std::memory_order_relaxed);
  const bool wanted = header.sequence != message::kNoReply;
  in_a_row_ = wanted ? 0 : in_a_row_ + 1;
  const auto sent = wanted ? send(header.sequence, answer) : Result<void>();
  if (call.malformed) {
    why = answer.error().text;
    return false;
  }
  if (!sent && sent.error().code != EPIPE && sent.error().code != ECONNRESET) why = sent.error().text;
  return sent.has_value();
}

void Client::forward_events() {
  // A full pipe loses events, as a full queue does: the client does not read them.
  while (auto event = state_.session->events().pop()) {
    const message::AsyncRecord record{static_cast<uint32_t>(event->type), event->object};
    [[maybe_unused]] const auto written = write(state_.async_pipe.get(), &record, sizeof record);
  }
}

Result<void> Client::send(uint32_t sequence, const Result<Reply>& answer) {
  message::ReplyHeader header{.sequence = sequence};
  std::vector<int> fds;
  if (!answer) {
    header.error = answer.error().code;
    header.text = answer.error().text;
  }
  if (state_.arena != nullptr) {
    for (const auto& chunk : state_.arena->take_new_chunks()) {
      header.chunks.push_back({chunk.index, chunk.bytes});
      fds.push_back(chunk.fd);
    }
  }
  std::vector<std::byte> bytes;
  message::encode(bytes, header);
  if (answer) {
    bytes.insert(bytes.end(), answer->body.begin(), answer->body.end());
    fds.insert(fds.end(), answer->fds.begin(), answer->fds.end());
  }
  return connection_.send(bytes, fds);
}

// Queue pairs and their rules first, so that no new work begins; then the objects that they used; the session last.
void Client::release() {
  state_.capture.reset();
  if (state_.connections != nullptr) state_.server.programs().remove(*state_.connections);
  state_.connections.reset();
  state_.cm_channels.clear();
  state_.flows.clear();
  state_.qps.clear();
  state_.srqs.clear();
  state_.xrc_domains.clear();
  state_.cqs.clear();
  state_.channels.clear();
  state_.address_handles.clear();
  state_.windows.clear();
  state_.regions.clear();
  settle_waits();  // what came too late for the server's thread
  state_.pds.clear();
  std::shared_ptr<control::DeviceSession> session;
  std::shared_ptr<Arena> arena;
  {
    const std::scoped_lock lock(state_.session_mutex);
    session.swap(state_.session);
    arena.swap(state_.arena);
  }
  state_.counted.reset();
  session.reset();
  arena.reset();
  state_.async_pipe.reset();
  state_.registered_bytes.store(0, std::memory_order_relaxed);
  state_.connection = {};
  state_.descriptors = {};
}

void Client::retire_broken() {
  retire_broken_regions(state_);
  if (!queues_are_broken(state_)) return;
  state_.server.log_of_client(
      state_.peer.uid, Severity::warning,
      fmt::format("client {} ({}, process {}) is disconnected: it removed the pages of its queues", state_.id,
                  state_.peer.command, state_.peer.pid));
  disconnect();
}

WaitAccount::Verdict Client::settle_waits() {
  using enum WaitAccount::Verdict;
  const Nanos waited(state_.waits->nanoseconds.exchange(0, std::memory_order_relaxed));
  if (waited == Nanos(0)) return allowed;
  const auto verdict = state_.user->note_wait(waited);
  const std::string what = fmt::format(
      "user {}: client {} ({}, process {}) removed pages of a file of {} bytes while an engine used them; the engine "
      "took "
      "{} ms",
      state_.peer.uid, state_.id, state_.peer.command, state_.peer.pid,
      state_.waits->file.load(std::memory_order_relaxed), std::chrono::ceil<std::chrono::milliseconds>(waited).count());
  // A user has few of the others: it is refused memory that makes engines wait.
  if (verdict == allowed) {
    state_.server.log_of_client(state_.peer.uid, Severity::warning, what);
  } else if (verdict == cut_process) {
    state_.server.log_always(Severity::warning,
                             what +
                                 "; the process is disconnected, and the user may register no such memory for a "
                                 "while (limits.punch_penalty)");
  } else {
    state_.server.log_always(Severity::warning,
                             what +
                                 " although it is refused such memory; all its clients that have some are "
                                 "disconnected");
  }
  return verdict;
}

bool Client::cut_off() {
  if (!break_punchable_regions(state_)) return false;
  disconnect();
  return true;
}

message::ClientRow Client::row() const {
  return row_of(state_, calls_.load(std::memory_order_relaxed), errors_.load(std::memory_order_relaxed));
}

std::vector<message::ObjectRow> Client::objects(message::Kind kind, uint32_t after, std::size_t most,
                                                const Sight& sight) const {
  return object_rows_of(state_, kind, after, most, sight);
}

}  // namespace uroce::service
