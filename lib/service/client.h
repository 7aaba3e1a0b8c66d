// One connection: what the client said, what it holds, and the thread that serves it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cm/manager.h"
#include "control/session.h"
#include "message/connection.h"
#include "message/device_messages.h"
#include "message/hello_messages.h"
#include "message/memory_messages.h"
#include "message/operator_messages.h"
#include "message/protocol.h"
#include "message/qp_messages.h"
#include "message/queue_messages.h"
#include "service/arena.h"
#include "service/handles.h"
#include "service/mapping.h"
#include "service/server.h"

namespace uroce::service {

/// What clients need of the server.
class ServerView {
 public:
  virtual ~ServerView() = default;
  virtual const std::vector<std::shared_ptr<control::Device>>& devices() const = 0;
  /// nullptr where there is none.
  virtual cm::Manager* connections() const = 0;
  virtual const PortAccess& ports() const = 0;
  virtual void log(Severity severity, std::string_view text) const = 0;
  virtual message::ClientRows client_rows(uint32_t after) const = 0;
  virtual message::ObjectRows object_rows(const message::ListObjects& request) const = 0;
  /// A client's thread is about to end.
  virtual void finished() = 0;
};

class Client {
 public:
  Client(ServerView& server, message::Connection connection, uint32_t id, const ClientLimits& limits);
  /// Ends the connection and frees everything.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// Instead of serving, answers the first message with `refusal` and ends.
  void refuse(Error refusal) { refusal_ = std::move(refusal); }
  /// Errors: EAGAIN (no thread to be had).
  Result<void> start();
  /// Disconnects and waits for the thread. Not from a client's thread: those look at other clients, and at their own.
  void end();
  /// Any thread: as if the client had gone.
  void disconnect() { connection_.shut_down(); }
  bool done() const { return done_.load(std::memory_order_acquire); }
  uint32_t id() const { return id_; }
  message::ClientRow row() const;
  /// Rows of the client's objects after `id`, at most `most`.
  std::vector<message::ObjectRow> objects(message::Kind kind, uint32_t after, std::size_t most) const;
  /// Ends the keys of regions whose pages the client has taken away.
  void retire_broken();

 private:
  struct Region {
    std::shared_ptr<Mapping> mapping;
    uint32_t key = 0;
    AccessFlags access{};
    uint64_t length = 0;
    uint32_t segments = 0;
    std::shared_ptr<control::Region> region;
  };
  struct Reply {
    std::vector<std::byte> body;
    std::vector<int> fds;            // to be sent, after the chunks'
    std::vector<message::Fd> owned;  // those of them that close once they are sent
  };
  template <class T>
  static Result<Reply> reply(const T& value);
  template <class Request, class Work>
  Result<Reply> with(std::span<const std::byte> bytes, Work work);

  void run();
  /// False when the connection is to end; `why` says it.
  bool serve(std::string& why);
  void forward_events();
  Result<Reply> call(message::Op op, std::span<const std::byte> bytes, std::vector<message::Fd>& fds);
  Result<Reply> call_object(message::Op op, std::span<const std::byte> bytes, std::vector<message::Fd>& fds);
  /// The connection manager's messages.
  Result<Reply> call_connections(message::Op op, std::span<const std::byte> bytes);
  Result<Reply> ask_connections(message::Op op, std::span<const std::byte> bytes);
  Result<void> send(uint32_t sequence, const Result<Reply>& answer);
  void release();

  Result<Reply> hello(const message::Hello& request);
  Result<Reply> capture(const message::OpenDevice& request);
  Result<Reply> open_device(const message::OpenDevice& request);
  Result<Reply> register_memory(const message::RegisterMemory& request, std::span<const message::Fd> fds);
  Result<Reply> reregister_memory(const message::ReregisterMemory& request, std::span<const message::Fd> fds);
  /// All of a region but its key and its object.
  static Result<std::shared_ptr<Region>> map_region(const message::RegisterMemory& wanted,
                                                    std::span<const message::Fd> fds);
  /// `less` bytes in `fewer` segments make room for `wanted`.
  Result<void> check_registered(const message::RegisterMemory& wanted, uint64_t less, uint32_t fewer) const;
  Result<Reply> create_channel();
  Result<Reply> create_cq(const message::CreateCq& request);
  Result<Reply> create_srq(const message::CreateSrq& request);
  Result<Reply> create_qp(const message::CreateQp& request);
  Result<Reply> modify_qp(const message::ModifyQp& request);
  Result<Reply> destroy(const message::Destroy& request);

  ServerView& server_;
  message::Connection connection_;
  const uint32_t id_;
  const ClientLimits limits_;
  int32_t pid_ = 0;
  uint32_t uid_ = 0;
  std::string command_;
  std::thread thread_;
  std::atomic<bool> done_{false};
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> errors_{0};
  std::atomic<uint64_t> registered_bytes_{0};
  std::atomic<uint32_t> mappings_{0};  // pieces of the regions
  std::optional<Error> refusal_;
  bool greeted_ = false;
  bool malformed_ = false;  // the last message was no message

  std::mutex broken_mutex_;           // guards Region::region, which the server's thread ends where pages are gone
  mutable std::mutex session_mutex_;  // guards what other threads' rows look at
  std::shared_ptr<control::Session> session_;
  std::shared_ptr<Arena> arena_;
  message::Fd async_pipe_;  // written here
  std::unique_ptr<cm::ManagerUser> connections_;
  std::unique_ptr<Capture> capture_;

  Handles<control::Pd> pds_{"protection domain", "max_pd"};
  Handles<Region> regions_{"memory region", "max_mr"};
  Handles<control::Window> windows_{"memory window", "max_mr"};
  Handles<control::Channel> channels_{"completion channel", "max_cq"};
  Handles<control::Cq> cqs_{"completion queue", "max_cq"};
  Handles<control::AddressHandle> handles_{"address handle", "max_ah"};
  Handles<control::Srq> srqs_{"shared receive queue", "max_srq"};
  Handles<control::Qp> qps_{"queue pair", "max_qp"};
};

}  // namespace uroce::service
