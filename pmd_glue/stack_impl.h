// The parts of a Stack.
#pragma once

#include <uroce/stack.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cm/manager.h"
#include "control/device.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/eal.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/host.h"
#include "pmd_glue/kernel_neighbourhood.h"
#include "pmd_glue/kernel_stack.h"
#include "pmd_glue/own_neighbourhood.h"
#include "pmd_glue/port.h"
#include "pmd_glue/ring_pair.h"
#include "pmd_glue/service_thread.h"
#include "pmd_glue/shared_queue.h"
#include "pmd_glue/telemetry.h"
#include "pmd_glue/worker.h"

struct rte_mempool;

namespace uroce {

struct Stack::Impl {
  /// One port and the device on it.
  struct Unit {
    std::unique_ptr<glue::Port> port;
    std::unique_ptr<glue::KernelStack> kernel;
    std::unique_ptr<glue::Neighbourhood> neighbourhood;
    // The same; nullptr where it is of the other kind.
    glue::OwnNeighbourhood* own_addresses = nullptr;
    glue::KernelNeighbourhood* kernel_addresses = nullptr;
    std::unique_ptr<glue::Handover> handover;
    std::unique_ptr<glue::SharedQueue> shared;
    std::unique_ptr<glue::Host> host;
    std::shared_ptr<control::Device> device;
  };

  Impl() = default;
  /// Stops and joins every thread, then destroys the parts that they used.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> set_up(const std::vector<std::string>& args, const StackOptions& options);
  /// Embedded: one pass on the calling thread.
  bool poll_here();
  /// Embedded: gives the core away, until something is due at most.
  void idle_here(std::chrono::nanoseconds limit);
  /// The connection manager of all devices, which the first call makes. Any thread. Errors: those of
  /// cm::Manager::start().
  Result<cm::Manager*> connections();
  /// Sets addresses and gateways of all ports from `options`, and ignores the other options. A port keeps its own
  /// addresses or those of the kernel. Errors: EINVAL (nothing has changed); those of control::Device::set_gids().
  Result<void> set_addresses(const StackOptions& options);
  /// Counters of the engines, the neighbourhood and the port. Any thread.
  glue::CounterList counters_of(const Unit& unit) const;
  /// The same without those of the engines.
  glue::CounterList port_counters_of(const Unit& unit) const;
  const glue::Eal& eal() const { return *eal_; }
  std::span<const std::unique_ptr<glue::Worker>> workers() const { return workers_; }

  bool embedded = true;
  std::vector<Unit> units;

 private:
  Result<void> open_ports(const StackOptions& options);
  Result<void> make_unit(Unit& unit, std::size_t index, const StackOptions& options);
  /// Makes the unit's neighbourhood, and returns the device's first addresses.
  Result<std::vector<Gid>> make_neighbourhood(Unit& unit, std::size_t index, const StackOptions& options);
  /// Lets the neighbourhood tell the unit's device of changes.
  void join_neighbourhood(Unit& unit);
  Result<void> make_port_queues(const StackOptions& options);
  /// Lets the worker's engines at both ends of a pair of rings find each other.
  void join_rings(const glue::Worker& worker);
  void launch();
  uint32_t engines() const { return static_cast<uint32_t>(workers_.size()); }

  std::unique_ptr<glue::Eal> eal_;
  std::unique_ptr<glue::TscClock> clock_;
  std::unique_ptr<glue::ServiceThread> service_;
  std::unique_ptr<glue::RingPair> rings_;
  rte_mempool* external_pool_ = nullptr;  ///< see EtherSink
  std::vector<std::unique_ptr<glue::Worker>> workers_;
  std::vector<unsigned> launched_;  ///< lcores that run a worker
  std::unique_ptr<glue::Telemetry> telemetry_;
  std::thread::id owner_;
  bool polling_ = false;
  std::mutex connections_mutex_;  ///< guards connections_
  std::unique_ptr<cm::Manager> connections_;
  std::atomic<cm::Manager*> made_connections_{nullptr};  ///< the same for all threads; poll_here() takes its turns

  friend class Stack;
};

}  // namespace uroce
