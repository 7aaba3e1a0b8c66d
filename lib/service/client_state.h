// The state of one program: its identity and limits, its use of the connection manager, and its opened devices with
// their objects. Operations work on this.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cm/manager.h"
#include "control/device_session.h"
#include "control/flow.h"
#include "control/xrc_domain.h"
#include "message/connection.h"
#include "message/protocol.h"
#include "service/arena.h"
#include "service/capture.h"
#include "service/handles.h"
#include "service/mapping.h"
#include "service/peer.h"
#include "service/server_view.h"
#include "service/succession.h"
#include "service/user.h"
#include "service/wait_account.h"

namespace uroce::service {

/// Both ends of a pipe.
inline constexpr uint64_t kDescriptorsOfChannel = 2;

/// A registered memory region: the client's pages, mapped here, and the device's key.
struct ClientRegion {
  std::shared_ptr<Mapping> mapping;  ///< null for a region of 0 bytes
  uint32_t key = 0;
  memory::PdId pd = 0;
  bool null = false;     ///< of ibv_alloc_null_mr(3)
  uint64_t address = 0;  ///< of its first byte in the client
  AccessFlags access{};
  uint64_t length = 0;
  Charge bytes_charge{};
  Charge segments_charge{};
  std::shared_ptr<control::Region> region;  ///< guarded by ClientState::broken_mutex

  std::byte* memory() const { return mapping != nullptr ? mapping->data() : nullptr; }
};

/// A region whose segments are still coming.
struct PreparedMemory {
  Charge bytes_charge;
  Charge segments_charge;
  MappingBuilder mapping;
};

/// An XRC domain as one client has opened it.
struct ClientXrcDomain {
  std::shared_ptr<control::XrcDomain> domain;
  Charge descriptor{};  ///< of its file
};

/// The part that all devices of a program share. The program's thread alone uses what is not constant.
struct Program {
  Program(ServerView& view, uint32_t number, Peer process, std::shared_ptr<User> account, int connection = -1)
      : server(view), id(number), peer(std::move(process)), user(std::move(account)), socket(connection) {}

  /// A part of the user's budget. Errors: as User::charge().
  Result<Charge> charge(Resource resource, uint64_t amount = 1) const { return user->charge(resource, amount, peer); }
  /// Ends its use of the connection manager, and its capture.
  void release();

  ServerView& server;
  const uint32_t id;  ///< of its first device
  const Peer peer;
  const std::shared_ptr<User> user;
  const int socket;                                     ///< its connection's
  bool has_packet_socket = false;                       ///< it has proved CAP_NET_RAW
  std::string proof_refusal{"it passed none"};          ///< why its packet socket proves nothing
  bool greeted = false;                                 ///< its hello was accepted
  std::atomic<uint32_t> protocol = message::kProtocol;  ///< the version that both sides speak
  std::unique_ptr<cm::ManagerUser> connections{};       ///< opened with the first call
  std::map<uint32_t, Charge> cm_channels{};
  std::unique_ptr<Capture> capture{};
  MemoryRoom::Hold capture_room{};
  std::unique_ptr<Succession::Turn> turn{};  ///< it is a daemon that takes over from this one
};

/// A device that a program has opened, and the objects there. The first one exists from the beginning, without a
/// device: it stands for the program itself. The program's thread changes it; other threads read what is atomic,
/// guarded, or in a Handles.
struct ClientState {
  ClientState(Program& of, uint32_t number) : program(of), id(number) {}

  Result<Charge> charge(Resource resource, uint64_t amount = 1) const { return program.charge(resource, amount); }
  /// charge() of one, as long as that leaves the user half of its budget. Errors: as charge(); EBUSY.
  Result<Charge> charge_spare(Resource resource) const;
  /// Charges the open device to the user, as a connection. Errors: as User::charge().
  Result<void> admit();
  /// Frees all objects and closes the device. The first one stays charged, as the program's connection.
  void release();
  /// Writes the device's asynchronous events to the program's pipe.
  void forward_events();
  /// Charges to its user what engines have waited for its memory. Any thread.
  WaitAccount::Verdict settle_waits();
  bool stands_for_program() const { return id == program.id; }

  /// Whether it may have raw packet queue pairs: the program has the right, or the user's [[user]] entry gives it.
  bool may_have_raw_packets() const {
    return program.has_packet_socket || peer.privileged || user->may_have_raw_packets();
  }

  Program& program;
  const uint32_t id;  ///< by which the operator knows it
  ServerView& server = program.server;
  const Peer& peer = program.peer;
  const std::shared_ptr<User>& user = program.user;
  Charge connection{};
  Charge descriptors{};  ///< of what belongs to no object

  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> errors{0};
  std::atomic<uint64_t> registered_bytes{0};

  const std::shared_ptr<EngineWaits> waits = std::make_shared<EngineWaits>();
  std::mutex broken_mutex;           ///< guards ClientRegion::region: the server's thread ends regions without pages
  mutable std::mutex session_mutex;  ///< guards session and arena where another thread reads them
  std::shared_ptr<control::DeviceSession> session{};
  std::optional<UserTraffic::Part> counted{};  ///< of the session
  std::shared_ptr<Arena> arena{};
  message::Fd async_pipe{};  ///< written here

  KeptFiles files{[this] { return charge_spare(Resource::descriptor); }};  ///< the program's thread alone uses it
  std::optional<PreparedMemory> prepared{};                                ///< the program's thread alone uses it
  Handles<control::Pd> pds{"protection domain"};
  Handles<ClientRegion> regions{"memory region"};
  Handles<control::Window> windows{"memory window"};
  Handles<control::CqChannel> channels{"completion channel"};
  Handles<control::Cq> cqs{"completion queue"};
  Handles<control::AddressHandle> address_handles{"address handle"};
  Handles<ClientXrcDomain> xrc_domains{"XRC domain"};
  Handles<control::ControlSrq> srqs{"shared receive queue"};
  Handles<control::ControlQp> qps{"queue pair"};
  Handles<control::Flow> flows{"receive rule"};
};

}  // namespace uroce::service
