#include "service/client.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

#include <poll.h>

#include <fmt/format.h>

#include "base/dead_owner.h"
#include "service/bequeath.h"
#include "service/bequeath_cm.h"
#include "service/left_objects.h"
#include "service/memory_operations.h"
#include "service/operation_table.h"

namespace uroce::service {
namespace {

constexpr std::chrono::seconds kSendTimeout{5};
constexpr int kHelloTimeoutMs = 5000;
/// Requests without a reply that are served before the asynchronous events are looked after.
constexpr uint32_t kMostInARow = 32;

}  // namespace

Client::Client(ServerView& server, message::Connection connection, uint32_t id, Peer peer, std::shared_ptr<User> user)
    : program_(server, id, std::move(peer), std::move(user), connection.fd()), connection_(std::move(connection)) {
  // A client that does not read its replies blocks only its own thread, for a bounded time.
  connection_.set_timeouts(kSendTimeout, kSendTimeout);
  devices_.push_back(std::make_unique<ClientState>(program_, id));
}

Client::~Client() { end(); }

Result<void> Client::admit() { return devices_.front()->admit(); }

Result<void> Client::start() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return fail(EAGAIN, fmt::format("client {} ({}, process {}) is refused: cannot start a thread: {}; raise the limit "
                                    "(TasksMax)",
                                    program_.id, program_.peer.command, program_.peer.pid, error.what()));
  }
  return {};
}

void Client::end() {
  if (!left_) disconnect();
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
    program_.server.log_of_client(program_.peer.payer(), Severity::warning,
                                  fmt::format("client {} ({}, process {}) is disconnected: {}", program_.id,
                                              program_.peer.command, program_.peer.pid, why));
  }
  const History::Objects left = log_end();
  if (!why.empty()) note(History::Kind::trouble, fmt::format("the daemon ended the connection: {}", why));
  disconnect();
  release();
  program_.server.history().end(program_.id, left);
  done_.store(true, std::memory_order_release);
  program_.server.finished();
}

// A program that was killed has destroyed nothing.
History::Objects Client::log_end() const {
  if (!program_.greeted || program_.turn != nullptr || disconnected_.load(std::memory_order_relaxed)) return {};
  auto left = left_objects_of(devices());
  std::string line =
      fmt::format("client {} ({}, process {}) has gone", program_.id, program_.peer.command, program_.peer.pid);
  if (!left.empty()) line += fmt::format("; it left {}, which end now", text_of(left));
  program_.server.log_of_client(program_.peer.payer(), queue_pairs() != 0 ? Severity::info : Severity::debug, line);
  if (!left.empty()) note(History::Kind::step, line);
  return left;
}

void Client::note(History::Kind kind, std::string_view text, const ClientState* device, uint32_t qpn) const {
  std::string name;
  if (device != nullptr && device->session != nullptr) name = device->session->device()->config().name;
  program_.server.history().note(program_.id, program_.peer, {.kind = kind, .device = name, .qpn = qpn, .text = text},
                                 std::chrono::steady_clock::now());
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
    rest(false);
    auto packet = connection_.receive_now();
    if (!packet || packet->has_value()) return packet;
  }
  in_a_row_ = 0;
  rest(true);
  Gate& gate = program_.server.gate();
  waiting_.assign(1, {.fd = gate.fd(), .events = POLLIN, .revents = 0});
  waiting_.push_back({.fd = connection_.fd(), .events = POLLIN, .revents = 0});
  for (const auto& device : devices_) {
    waiting_.push_back({.fd = device->session ? device->session->events().fd() : -1, .events = POLLIN, .revents = 0});
  }
  const int ready = poll(waiting_.data(), waiting_.size(), program_.greeted ? -1 : kHelloTimeoutMs);
  if (ready < 0 && errno == EINTR) return std::nullopt;
  rest(false);
  if (ready == 0) return fail(ETIMEDOUT, fmt::format("no hello came within {} ms", kHelloTimeoutMs));
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if ((waiting_[i + 2].revents & POLLIN) != 0) devices_[i]->forward_events();
  }
  if (waiting_[0].revents != 0) {
    rest(true);
    gate.pass();
    return std::nullopt;
  }
  if (waiting_[1].revents == 0) return std::nullopt;
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
  if (refusal_) {
    note(History::Kind::trouble, fmt::format("refused: {}", refusal_->text));
    (void)send(nullptr, header.sequence, std::unexpected(*refusal_));
    return false;
  }
  const bool wanted = header.sequence != message::kNoReply;
  in_a_row_ = wanted ? 0 : in_a_row_ + 1;
  const auto device = device_of(header);
  if (!device) {
    devices_.front()->calls.fetch_add(1, std::memory_order_relaxed);
    devices_.front()->errors.fetch_add(1, std::memory_order_relaxed);
    return !wanted || send(nullptr, header.sequence, std::unexpected(device.error())).has_value();
  }
  ClientState& state = **device;
  state.calls.fetch_add(1, std::memory_order_relaxed);
  Call call{.op = header.op, .body = reader.rest(), .fds = packet.fds, .answered = wanted};
  const auto answer = serve_call(state, call);
  if (!answer) {
    state.errors.fetch_add(1, std::memory_order_relaxed);
    // Programs ask for what they may lack, and go on without it.
    const bool normal = call.op == message::Op::prove_raw_packets || answer.error().code == EOPNOTSUPP;
    const std::string of = call.qpn != 0 ? fmt::format("queue pair {:#x} ", call.qpn) : "";
    note(normal ? History::Kind::step : History::Kind::trouble, fmt::format("{}refused: {}", of, answer.error().text),
         &state, call.qpn);
  }
  const auto sent = wanted ? send(&state, header.sequence, answer) : Result<void>();
  if (call.malformed) {
    why = answer.error().text;
    return false;
  }
  if (sent && program_.turn != nullptr) {
    be_replaced();
    return false;
  }
  if (!sent && sent.error().code != EPIPE && sent.error().code != ECONNRESET) why = sent.error().text;
  return sent.has_value();
}

// Where the successor takes over, this process ends before this returns.
void Client::be_replaced() {
  const Error why = program_.turn->run(connection_);
  program_.turn.reset();
  program_.server.log_always(Severity::warning, fmt::format("{} does not take over: {}; this daemon goes on",
                                                            process_text(program_.peer.pid), why.text));
}

Result<ClientState*> Client::device_of(const message::RequestHeader& header) {
  if (!program_.greeted) return devices_.front().get();
  if (header.device < devices_.size()) return devices_[header.device].get();
  if (header.op != message::Op::open_device || header.device >= message::kMaxDevices) {
    return fail(EINVAL, fmt::format("this connection has no device {}; open one first, under a number below {}",
                                    header.device, message::kMaxDevices));
  }
  // A program's threads take numbers in one order, and their requests may come in another.
  while (header.device >= devices_.size()) {
    auto added = std::make_unique<ClientState>(program_, program_.server.new_client_id());
    const std::scoped_lock lock(devices_mutex_);
    devices_.push_back(std::move(added));
  }
  return devices_[header.device].get();
}

std::vector<ClientState*> Client::devices() const {
  const std::scoped_lock lock(devices_mutex_);
  std::vector<ClientState*> out;
  for (const auto& device : devices_) out.push_back(device.get());
  return out;
}

bool Client::has(uint32_t id) const {
  return std::ranges::any_of(devices(), [id](const ClientState* device) { return device->id == id; });
}

std::vector<const ClientState*> Client::listed() const {
  std::vector<const ClientState*> out;
  for (const ClientState* device : devices()) {
    const std::scoped_lock lock(device->session_mutex);
    if (device->session != nullptr) out.push_back(device);
  }
  if (out.empty()) out.push_back(devices().front());
  return out;
}

Result<void> Client::send(ClientState* device, uint32_t sequence, const Result<Reply>& answer) {
  message::ReplyHeader header{.sequence = sequence};
  std::vector<int> fds;
  if (!answer) {
    header.error = answer.error().code;
    header.text = answer.error().text;
  }
  if (device != nullptr && device->arena != nullptr) {
    for (const auto& chunk : device->arena->take_new_chunks()) {
      header.chunks.push_back({chunk.index, chunk.bytes});
      fds.push_back(chunk.fd);
    }
    if (device->arena->unsealable()) return fail(EPERM, "it kept the daemon from sealing its queues (F_SEAL_SEAL)");
  }
  std::vector<std::byte> bytes;
  message::encode(bytes, header, program_.protocol);
  if (answer) {
    bytes.insert(bytes.end(), answer->body.begin(), answer->body.end());
    fds.insert(fds.end(), answer->fds.begin(), answer->fds.end());
  }
  return connection_.send(bytes, fds);
}

// The ids first: the connection manager uses their queue pairs.
void Client::release() {
  program_.release();
  for (const auto& device : devices_) {
    device->release();
    device->connection = {};
    device->descriptors = {};
  }
}

void Client::outlive_threads() { free_of_dead_owner(devices_mutex_); }

Result<void> Client::bequeath(EstateWriter& estate) const {
  if (!program_.greeted || refused()) return fail(EOPNOTSUPP, "it has not begun");
  if (!at_rest_) return fail(EOPNOTSUPP, "the daemon died while it served a request of it");
  const auto all = devices();
  // Engines may have raised events since its thread came to the gate.
  for (ClientState* device : all) {
    if (device->session != nullptr) device->forward_events();
  }
  return service::bequeath(program_, all, estate);
}

Result<void> Client::inherit(const ProgramRow& row, EstateReader& estate) {
  program_.greeted = true;
  program_.protocol = row.protocol;
  if (!own_versions().protocol.contains(row.protocol)) {
    return fail(EPROTONOSUPPORT, fmt::format("it speaks protocol {}, which this daemon does not", row.protocol));
  }
  program_.has_packet_socket = row.has_packet_socket;
  if (auto admitted = admit(); !admitted) return admitted;
  for (uint32_t number = 0; !estate.at_end(); ++number) {
    const auto kind = estate.next();
    if (!kind) return std::unexpected(kind.error());
    if (*kind != Row::device) break;
    const auto device = estate.take<DeviceRow>();
    if (!device) return std::unexpected(device.error());
    const bool stands_for_program = device->id == program_.id;
    if (device->number != number || number >= message::kMaxDevices || stands_for_program != (number == 0)) {
      return fail(EPROTO, fmt::format("the estate's device {} of a program has number {}", number, device->number));
    }
    if (number > 0) {
      const std::scoped_lock lock(devices_mutex_);
      devices_.push_back(std::make_unique<ClientState>(program_, device->id));
    }
    ClientState& client = *devices_.back();
    if (device->name.empty()) continue;
    if (number > 0) {
      if (auto admitted = client.admit(); !admitted) return admitted;
    }
    if (auto made = service::inherit(client, *device, estate); !made) return made;
  }
  return inherit_connections(program_, devices(), estate);
}

uint32_t Client::last_id() const {
  uint32_t last = 0;
  for (const ClientState* device : devices()) last = std::max(last, device->id);
  return last;
}

void Client::abandon() {
  left_ = true;
  if (program_.connections != nullptr) program_.connections->abandon();
  release();
}

std::size_t Client::queue_pairs() const {
  std::size_t sum = 0;
  for (const ClientState* device : devices()) sum += device->qps.size();
  return sum;
}

void Client::retire_broken() {
  bool broken = false;
  for (ClientState* device : devices()) {
    retire_broken_regions(*device);
    broken = broken || queues_are_broken(*device);
  }
  if (!broken) return;
  program_.server.log_of_client(
      program_.peer.payer(), Severity::warning,
      fmt::format("client {} ({}, process {}) is disconnected: it removed the pages of its queues", program_.id,
                  program_.peer.command, program_.peer.pid));
  disconnect();
}

WaitAccount::Verdict Client::settle_waits() {
  auto worst = WaitAccount::Verdict::allowed;
  for (ClientState* device : devices()) worst = std::max(worst, device->settle_waits());
  return worst;
}

bool Client::cut_off() {
  bool any = false;
  for (ClientState* device : devices()) any = break_punchable_regions(*device) || any;
  if (any) disconnect();
  return any;
}

}  // namespace uroce::service
