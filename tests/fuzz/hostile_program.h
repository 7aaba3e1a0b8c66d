// A program that talks to the daemon's dispatch without a socket, and maps its queue memory, for fuzzers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>

#include "message/device_messages.h"
#include "message/qp_messages.h"
#include "service/operation_table.h"
#include "tests/fuzz/input.h"

namespace uroce::test {

/// Of each resource so much that a short input can use it up. `regions`: memory regions and windows.
inline service::PerResource<uint64_t> small_capacity(uint64_t regions) {
  using service::Resource;
  return {{Resource::connection, 64},
          {Resource::qp, 32},
          {Resource::cq, 64},
          {Resource::srq, 32},
          {Resource::mr, regions},
          {Resource::pd, 64},
          {Resource::ah, 64},
          {Resource::flow, 64},
          {Resource::cm_id, 64},
          {Resource::descriptor, 128},
          {Resource::mapping, 128},
          {Resource::queue_bytes, 32 << 20},
          {Resource::registered_bytes, 16 << 20}};
}

/// The part of the server that operations use. Its lists are empty.
struct ScriptedView : service::ServerView {
  std::vector<std::shared_ptr<control::Device>> all;
  service::PortAccess access;
  service::Gate open_gate{};
  service::Succession nobody{nullptr};
  service::DaemonRights own_rights;
  service::EarlierCounters earlier{};
  service::History what_happened;
  const std::vector<std::shared_ptr<control::Device>>& devices() const override { return all; }
  cm::Manager* connections() const override { return nullptr; }
  const service::PortAccess& ports() const override { return access; }
  const service::DaemonRights& rights() const override { return own_rights; }
  const service::EarlierCounters& earlier_counters() const override { return earlier; }
  service::Gate& gate() override { return open_gate; }
  service::History& history() override { return what_happened; }
  message::RestartRow restart_row() const override { return {}; }
  Result<std::unique_ptr<service::Succession::Turn>> begin_succession(const message::TakeOver& request,
                                                                      int32_t pid) override {
    return nobody.begin(request, pid, [](const service::EstateVersions&) { return Result<void>(); });
  }
  void log_of_client(uint32_t, service::Severity, std::string_view) override {}
  void log_always(service::Severity, std::string_view) override {}
  message::ClientRows client_rows(uint32_t, const service::Sight&) const override { return {}; }
  message::UserRows user_rows(uint64_t, const service::Sight&) const override { return {}; }
  message::ObjectRows object_rows(const message::ListObjects&, const service::Sight&) const override { return {}; }
  uint32_t new_client_id() override { return 0; }
  void finished() override {}
  bool await_departing() override { return false; }
};

/// Queue memory as a program maps it.
struct Mapped {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
};

/// A queue pair as the reply to its creation describes it.
struct QueuePairSeen {
  uint32_t qpn = 0;
  QpCap cap{};
  bool with_srq = false;
  message::Place place{};
};

/// A program at the other end of a connection.
class HostileProgram {
 public:
  HostileProgram(ScriptedView& view, uint32_t id, const service::Peer& peer, std::shared_ptr<service::User> user)
      : program_(view, id, peer, std::move(user)) {}
  ~HostileProgram() {
    for (const Mapped& chunk : chunks) munmap(chunk.data, chunk.bytes);
  }
  HostileProgram(const HostileProgram&) = delete;
  HostileProgram& operator=(const HostileProgram&) = delete;

  /// As service::Client serves a message. Ends the connection where it would.
  std::optional<std::vector<std::byte>> call(message::Op op, std::span<const std::byte> body,
                                             std::span<const message::Fd> fds = {}) {
    const std::vector<std::byte> exact(body.begin(), body.end());
    service::Call made{.op = op, .body = exact, .fds = fds};
    auto answer = service::serve_call(state_, made);
    require(answer || (answer.error().code > 0 && !answer.error().text.empty()), "an error that says nothing");
    require(answer || answer.error().text.size() < 1000, "an error that says too much");
    require(!made.malformed || !answer, "a malformed message was served");
    if (state_.arena != nullptr) {
      for (const auto& chunk : state_.arena->take_new_chunks()) map(chunk.fd, chunk.bytes);
    }
    ended = ended || made.malformed;
    if (!answer) return std::nullopt;
    require(answer->body.size() < message::kMaxPacket - 4096, "a reply is larger than a packet");
    for (const int fd : answer->fds) require(fcntl(fd, F_GETFD) >= 0, "a reply has a descriptor that is closed");
    return std::move(answer->body);
  }
  template <class Request>
  std::optional<std::vector<std::byte>> ask(message::Op op, const Request& request,
                                            std::span<const message::Fd> fds = {}) {
    std::vector<std::byte> body;
    message::encode(body, request);
    return call(op, body, fds);
  }
  template <class Answer, class Request>
  Answer must(message::Op op, const Request& request, std::span<const message::Fd> fds = {}) {
    const auto body = ask(op, request, fds);
    Answer answer;
    require(body.has_value() && message::decode(*body, answer), "the set-up failed");
    return answer;
  }
  service::ClientState& state() { return state_; }
  /// A piece of its queue memory; nullptr when it is not there.
  std::byte* at(const message::Place& place) const {
    if (place.chunk >= chunks.size()) return nullptr;
    const Mapped& chunk = chunks[place.chunk];
    return place.offset + place.bytes <= chunk.bytes ? chunk.data + place.offset : nullptr;
  }

  bool ended = false;
  std::vector<Mapped> chunks;
  std::vector<QueuePairSeen> qps;
  std::vector<std::pair<uint32_t, uint64_t>> regions;  ///< key and first address
  std::optional<message::OpenDeviceReply> device;

 private:
  void map(int fd, uint64_t bytes) {
    void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    require(data != MAP_FAILED, "new queue memory cannot be mapped");
    chunks.push_back({static_cast<std::byte*>(data), bytes});
  }

  service::Program program_;
  service::ClientState state_{program_, program_.id};
};

}  // namespace uroce::test
