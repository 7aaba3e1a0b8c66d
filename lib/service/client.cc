#include "service/client.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <new>
#include <system_error>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "queues/layout.h"

namespace uroce::service {
namespace {

constexpr std::chrono::seconds kSendPatience{5};
constexpr int kHelloPatienceMs = 5000;

std::string command_of(int32_t pid) {
  std::ifstream file(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(file, name);
  // The process chose it, and it goes to a log that people read on terminals.
  std::ranges::replace_if(name, [](char c) { return c < ' ' || c > '~'; }, '?');
  return name;
}

}  // namespace

Client::Client(ServerView& server, message::Connection connection, uint32_t id, const ClientLimits& limits)
    : server_(server), connection_(std::move(connection)), id_(id), limits_(limits) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(connection_.fd(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0) {
    pid_ = peer.pid;
    uid_ = peer.uid;
  }
  command_ = command_of(pid_);
  // A client that does not read its replies keeps its own thread waiting, and not for ever.
  connection_.set_patience(kSendPatience, kSendPatience);
}

Client::~Client() { end(); }

Result<void> Client::start() {
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    return fail(EAGAIN, fmt::format("client {} ({}, process {}) is turned away: no thread for it: {}; raise the limit "
                                    "(TasksMax)",
                                    id_, command_, pid_, error.what()));
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
    why = "the daemon has no memory for what it asks";
  }
  if (!why.empty()) {
    server_.log(Severity::warning,
                fmt::format("client {} ({}, process {}) is disconnected: {}", id_, command_, pid_, why));
  }
  disconnect();
  release();
  done_.store(true, std::memory_order_release);
  server_.finished();
}

bool Client::serve(std::string& why) {
  pollfd waiting[2] = {{.fd = connection_.fd(), .events = POLLIN, .revents = 0},
                       {.fd = session_ ? session_->events().fd() : -1, .events = POLLIN, .revents = 0}};
  const int ready = poll(waiting, 2, greeted_ ? -1 : kHelloPatienceMs);
  if (ready < 0 && errno == EINTR) return true;
  if (ready == 0) {
    why = fmt::format("it said nothing within {} ms", kHelloPatienceMs);
    return false;
  }
  if ((waiting[1].revents & POLLIN) != 0) forward_events();
  if (waiting[0].revents == 0) return true;
  auto packet = connection_.receive();
  if (!packet) {
    if (packet.error().code != ECONNRESET) why = packet.error().text;
    return false;
  }
  message::Reader reader(packet->bytes);
  message::RequestHeader header;
  reader(header);
  if (!reader.good()) {
    why = fmt::format("a message of {} bytes has no header", packet->bytes.size());
    return false;
  }
  calls_.fetch_add(1, std::memory_order_relaxed);
  malformed_ = false;
  if (refusal_) {
    (void)send(header.sequence, std::unexpected(*refusal_));
    return false;
  }
  const auto answer = call(header.op, reader.rest(), packet->fds);
  if (!answer) errors_.fetch_add(1, std::memory_order_relaxed);
  const auto sent = send(header.sequence, answer);
  if (malformed_) {
    why = answer.error().text;
    return false;
  }
  if (!sent && sent.error().code != EPIPE && sent.error().code != ECONNRESET) why = sent.error().text;
  return sent.has_value();
}

void Client::forward_events() {
  // A full pipe loses events, as a full queue does: the client does not look.
  while (auto event = session_->events().pop()) {
    const message::AsyncRecord record{static_cast<uint32_t>(event->type), event->object};
    [[maybe_unused]] const auto written = write(async_pipe_.get(), &record, sizeof record);
  }
}

Result<void> Client::send(uint32_t sequence, const Result<Reply>& answer) {
  message::ReplyHeader header{.sequence = sequence};
  std::vector<int> fds;
  if (!answer) {
    header.error = answer.error().code;
    header.text = answer.error().text;
  }
  if (arena_ != nullptr) {
    for (const auto& chunk : arena_->take_new_chunks()) {
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

// Queue pairs first: nothing new begins. Then what they used, and the session last.
void Client::release() {
  capture_.reset();
  connections_.reset();
  qps_.take_all().clear();
  srqs_.take_all().clear();
  cqs_.take_all().clear();
  channels_.take_all().clear();
  handles_.take_all().clear();
  windows_.take_all().clear();
  regions_.take_all().clear();
  pds_.take_all().clear();
  std::shared_ptr<control::Session> session;
  {
    const std::scoped_lock lock(session_mutex_);
    session.swap(session_);
  }
  session.reset();
  arena_.reset();
  async_pipe_.reset();
  registered_bytes_.store(0, std::memory_order_relaxed);
}

void Client::retire_broken() {
  for (auto& [id, region] : regions_.after(0, UINT32_MAX)) {
    if (!region->mapping->broken()) continue;
    std::shared_ptr<control::Region> object;  // ends outside the lock
    {
      const std::scoped_lock lock(broken_mutex_);
      object.swap(region->region);
    }
    if (object == nullptr) continue;
    server_.log(
        Severity::warning,
        fmt::format("client {} ({}, process {}) took the pages of its memory region {:#x} away; its key is ended", id_,
                    command_, pid_, region->key));
  }
}

message::ClientRow Client::row() const {
  message::ClientRow row{.id = id_, .pid = pid_, .uid = uid_, .command = command_};
  {
    const std::scoped_lock lock(session_mutex_);
    if (session_ != nullptr) {
      row.device = session_->device()->config().name;
      row.queue_bytes = arena_->used();
    }
  }
  row.qps = qps_.size();
  row.cqs = cqs_.size();
  row.srqs = srqs_.size();
  row.mrs = regions_.size();
  row.pds = pds_.size();
  row.ahs = handles_.size();
  row.registered_bytes = registered_bytes_.load(std::memory_order_relaxed);
  row.calls = calls_.load(std::memory_order_relaxed);
  row.errors = errors_.load(std::memory_order_relaxed);
  return row;
}

}  // namespace uroce::service
