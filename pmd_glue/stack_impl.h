// The parts of a Stack.
#pragma once

#include <uroce/stack.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cm/manager.h"
#include "control/device.h"
#include "message/belongings.h"
#include "message/succession_messages.h"
#include "net/address.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/eal.h"
#include "pmd_glue/fault_desk.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/host.h"
#include "pmd_glue/kernel_neighbourhood.h"
#include "pmd_glue/kernel_stack.h"
#include "pmd_glue/own_neighbourhood.h"
#include "pmd_glue/port.h"
#include "pmd_glue/predecessor.h"
#include "pmd_glue/ring_pair.h"
#include "pmd_glue/service_thread.h"
#include "pmd_glue/shared_queue.h"
#include "pmd_glue/telemetry.h"
#include "pmd_glue/worker.h"
#include "record/file.h"

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
    std::vector<std::unique_ptr<record::FileRecorder>> recorders;  ///< of the device's engines
    std::shared_ptr<control::Device> device;
  };

  Impl() = default;
  /// Stops and joins every thread, then destroys the parts that they used.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// With `ask`, ports and engines are those of the daemon before, and dormant until awaken().
  Result<void> set_up(const std::vector<std::string>& args, const StackOptions& options, glue::AskPredecessor ask = {});
  /// Embedded: one pass of the calling thread's engines.
  bool poll_here();
  /// Embedded: gives the core away, until something is due at most.
  void idle_here(std::chrono::nanoseconds limit);
  Result<void> start_loop(uint32_t engine, std::function<void()> body);
  void join_loops();
  void wake(uint32_t engine);
  /// Embedded: the calling thread runs engines.
  bool runs_engines_here() const;
  /// The connection manager of all devices, which the first call makes. Any thread. Errors: those of
  /// cm::Manager::start().
  Result<cm::Manager*> connections();
  /// Sets addresses and gateways of all ports from `options`, and ignores the other options. A port keeps its own
  /// addresses or those of the kernel. Errors: EINVAL, EADDRINUSE (nothing has changed); those of
  /// control::Device::set_gids().
  Result<void> set_addresses(const StackOptions& options);
  /// Counters of the engines, the neighbourhood and the port. Any thread.
  glue::CounterList counters_of(const Unit& unit) const;
  /// The same without those of the engines.
  glue::CounterList port_counters_of(const Unit& unit) const;
  // See StackAccess.
  Result<std::vector<message::DeviceFacts>> facts() const;
  message::Belongings lend() const;
  void freeze();
  void thaw();
  void awaken();
  void abandon();
  const glue::Eal& eal() const { return *eal_; }
  std::span<const std::unique_ptr<glue::Worker>> workers() const { return workers_; }
  glue::FaultDesk& faults() const { return *faults_; }

  uint32_t engines() const { return static_cast<uint32_t>(workers_.size()); }

  bool embedded = true;
  std::vector<Unit> units;

 private:
  Result<void> open_ports(const StackOptions& options);
  /// After freeze(): nothing of what the engines had taken, or wanted to send, stays in this process.
  void settle();
  /// Asks the daemon before for what it has.
  Result<void> inherit(const StackOptions& options, const glue::AskPredecessor& ask);
  Result<std::vector<message::DeviceFacts>> facts_before_opening(const StackOptions& options) const;
  Result<void> make_unit(Unit& unit, std::size_t index, const StackOptions& options);
  /// Makes the unit's neighbourhood, and returns the device's first addresses.
  Result<std::vector<Gid>> make_neighbourhood(Unit& unit, std::size_t index, const StackOptions& options);
  /// The addresses and gateways that `options` list, by port; empty where they are the kernel's. Errors: EINVAL;
  /// EADDRINUSE if another program has one of them.
  Result<std::vector<net::AddressTable>> claim_addresses(const StackOptions& options) const;
  /// Lets the neighbourhood tell the unit's device of changes.
  void join_neighbourhood(Unit& unit);
  Result<void> make_port_queues(const StackOptions& options);
  /// Lets the worker's engines at both ends of a pair of rings find each other.
  void join_rings(const glue::Worker& worker);
  /// Errors: those of read_fault_file() and FaultDesk::begin().
  Result<void> begin_faults(const StackOptions& options);
  void make_loops();
  void launch();
  void launch_workers();
  void start_service();
  /// The engine of the loop that the calling thread is in; 0 outside of loops.
  uint32_t engine_here() const;
  bool poll_engine(uint32_t engine);
  /// Engine 0 has none: the owner's thread polls it.
  bool has_loop(uint32_t engine) const { return loops_[engine].running.load(std::memory_order_acquire); }

  std::unique_ptr<glue::Eal> eal_;
  std::unique_ptr<glue::TscClock> clock_;
  std::unique_ptr<glue::ServiceThread> service_;
  std::unique_ptr<glue::RingPair> rings_;
  rte_mempool* external_pool_ = nullptr;  ///< see EtherSink
  std::vector<std::unique_ptr<glue::Worker>> workers_;
  std::unique_ptr<glue::FaultDesk> faults_;
  std::vector<unsigned> launched_;            ///< lcores that run a worker
  message::Belongings* inherited_ = nullptr;  ///< of the daemon before, during set_up()
  bool dormant_ = false;                      ///< until awaken()
  std::unique_ptr<glue::Telemetry> telemetry_;
  std::thread::id owner_;
  /// An embedded stack's engine, in the hands of one thread after another.
  struct Loop {
    Impl* stack = nullptr;
    uint32_t engine = 0;
    unsigned lcore = 0;
    std::function<void()> body{};
    std::atomic<bool> running{false};  ///< a loop of the program has the engine
    alignas(64) bool polling = false;  ///< of the thread that has the engine
  };
  static int loop_main(void* loop);
  std::unique_ptr<Loop[]> loops_;  // by engine
  std::mutex connections_mutex_;   ///< guards connections_
  std::unique_ptr<cm::Manager> connections_;
  std::atomic<cm::Manager*> made_connections_{nullptr};  ///< the same for all threads; poll_here() takes its turns

  friend class Stack;
};

}  // namespace uroce
