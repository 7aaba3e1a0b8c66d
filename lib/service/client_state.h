// The state of one client: identity, limits and objects. Its operations work on this.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "cm/manager.h"
#include "control/device_session.h"
#include "message/connection.h"
#include "service/arena.h"
#include "service/capture.h"
#include "service/client_limits.h"
#include "service/handles.h"
#include "service/mapping.h"
#include "service/server_view.h"

namespace uroce::service {

/// A registered memory region: the client's pages, mapped here, and the device's key.
struct ClientRegion {
  std::shared_ptr<Mapping> mapping;
  uint32_t key = 0;
  AccessFlags access{};
  uint64_t length = 0;
  uint32_t segments = 0;
  std::shared_ptr<control::Region> region;  ///< guarded by ClientState::broken_mutex
};

/// The client's thread changes it; other threads read what is atomic, guarded, or in a Handles.
struct ClientState {
  ClientState(ServerView& view, uint32_t number, const ClientLimits& most) : server(view), id(number), limits(most) {}

  ServerView& server;
  const uint32_t id;
  const ClientLimits limits;
  int32_t pid = 0;
  uint32_t uid = 0;
  std::string command{};

  bool greeted = false;  ///< its hello was accepted
  std::atomic<uint64_t> registered_bytes{0};
  std::atomic<uint32_t> mappings{0};  ///< pieces of the regions

  std::mutex broken_mutex;           ///< guards ClientRegion::region: the server's thread ends regions without pages
  mutable std::mutex session_mutex;  ///< guards session and arena where another thread reads them
  std::shared_ptr<control::DeviceSession> session{};
  std::shared_ptr<Arena> arena{};
  message::Fd async_pipe{};  ///< written here
  std::unique_ptr<cm::ManagerUser> connections{};
  std::unique_ptr<Capture> capture{};

  Handles<control::Pd> pds{"protection domain", "max_pd"};
  Handles<ClientRegion> regions{"memory region", "max_mr"};
  Handles<control::Window> windows{"memory window", "max_mr"};
  Handles<control::CqChannel> channels{"completion channel", "max_cq"};
  Handles<control::Cq> cqs{"completion queue", "max_cq"};
  Handles<control::AddressHandle> address_handles{"address handle", "max_ah"};
  Handles<control::ControlSrq> srqs{"shared receive queue", "max_srq"};
  Handles<control::ControlQp> qps{"queue pair", "max_qp"};
};

}  // namespace uroce::service
