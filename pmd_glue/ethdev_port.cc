#include "pmd_glue/ethdev_port.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <net/if.h>
#include <unistd.h>

#include "pmd_glue/eal_args.h"
#include "pmd_glue/interrupt_thread.h"
#include "pmd_glue/memif.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/pci.h"

namespace uroce::glue {

namespace {

constexpr auto kServerTimeout = std::chrono::seconds(5);

/// Silences one log type of DPDK while it lives.
class SilencedLog {
 public:
  explicit SilencedLog(const char* type) {
    if (type == nullptr) return;
    type_ = rte_log_register(type);  // returns the existing type of this name
    level_ = rte_log_get_level(static_cast<uint32_t>(type_));
    rte_log_set_level(static_cast<uint32_t>(type_), RTE_LOG_CRIT);
  }
  ~SilencedLog() {
    if (type_ >= 0 && level_ >= 0) rte_log_set_level(static_cast<uint32_t>(type_), static_cast<uint32_t>(level_));
  }
  SilencedLog(const SilencedLog&) = delete;
  SilencedLog& operator=(const SilencedLog&) = delete;

 private:
  int type_ = -1;
  int level_ = -1;
};

}  // namespace

EthdevPort::~EthdevPort() {
  close();
  if (stuck_) pool_ = nullptr;  // the driver may still use the buffers
}

bool EthdevPort::is_memif_client() const { return driver_ == "net_memif" && glue::is_memif_client(devargs_); }

// `work` owns everything it uses, because it may outlive the port (see on_interrupt_thread).
std::optional<int> EthdevPort::beside_no_handler(std::function<int()> work) const {
  if (needs_guard()) return on_interrupt_thread(std::move(work));
  return work();
}

Result<void> EthdevPort::start() {
  const bool client = is_memif_client();
  const auto until = std::chrono::steady_clock::now() + kServerTimeout;
  const auto try_start = [id = id_] { return rte_eth_dev_start(id); };
  const SilencedLog silenced(client ? "pmd.net.memif" : nullptr);  // one message at the end reports it
  auto error = beside_no_handler(try_start);
  while (error.value_or(0) != 0 && client && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    error = beside_no_handler(try_start);
  }
  if (!error) {
    stuck_ = true;
    return fail_port(ETIMEDOUT, fmt::format("did not start within {} s, because EAL's interrupt thread is stuck in a "
                                            "driver; start the program again",
                                            kInterruptTimeout.count()));
  }
  if (*error != 0 && client) {
    return fail_port(ENODEV, fmt::format("found no memif server on {} within 5 s; start the one with role=server first",
                                         memif_socket(devargs_)));
  }
  if ((*error != 0 || !interrupts_work()) && std::exchange(rx_interrupts_, false)) error = start_without_interrupts();
  if (*error != 0) return fail_port(*error, fmt::format("did not start: {}", rte_strerror(-*error)));
  started_ = true;
  admit_vlan();
  read_spread();
  if (card_) note(description(), NoteLevel::info);
  refresh_link();
  return {};
}

// Only a started driver shows whether its binding has an interrupt for each queue: uio_pci_generic has none.
bool EthdevPort::interrupts_work() const {
  for (uint16_t q = 0; q < queues_ && rx_interrupts_; ++q) {
    if (rte_eth_dev_rx_intr_ctl_q_get_fd(id_, q) < 0 || rte_eth_dev_rx_intr_enable(id_, q) != 0) return false;
    rte_eth_dev_rx_intr_disable(id_, q);
  }
  return true;
}

int EthdevPort::start_without_interrupts() {
  rte_eth_dev_stop(id_);
  if (const int error = apply(); error != 0) return error;
  receive_all_groups();
  return rte_eth_dev_start(id_);
}

void EthdevPort::stop() {
  if (!started_) return;
  started_ = false;
  link_up_.store(false, std::memory_order_relaxed);
  stuck_ = !beside_no_handler([id = id_] { return rte_eth_dev_stop(id); }).has_value();
}

void EthdevPort::close() {
  stop();
  if (opened_ && !stuck_) {
    const bool listens = driver_ == "net_memif" && !is_memif_client();
    const auto closed = beside_no_handler([id = id_, devargs = devargs_, listens] {
      // Other ports may share the socket. They lose later clients, but otherwise the last port to close would make a
      // later client crash the process.
      if (listens) silence_memif_listener(devargs);
      return rte_eth_dev_close(id);
    });
    stuck_ = !closed.has_value();
  }
  if (opened_ && stuck_) {
    write_line_to_stderr(fmt::format("port {} ({}) stays open: its driver did not return within {} s", name_, driver_,
                                     kInterruptTimeout.count()));
  }
  opened_ = false;
  if (group_socket_ >= 0) ::close(std::exchange(group_socket_, -1));
}

void EthdevPort::reconnect(uint32_t pollers) {
  if (!is_memif_client() || link_up()) return;
  if (!pause_.begin(pollers)) return;
  const SilencedLog silenced("pmd.net.memif");
  const auto error = on_interrupt_thread([id = id_] {
    rte_eth_dev_stop(id);
    return rte_eth_dev_start(id);
  });
  // Nobody may poll a port that did not start, or that may still start.
  if (error == 0) pause_.end();
}

int EthdevPort::interrupt_descriptor(uint16_t queue) const { return rte_eth_dev_rx_intr_ctl_q_get_fd(id_, queue); }

void EthdevPort::arm_interrupt(uint16_t queue, bool armed) const {
  if (armed) {
    rte_eth_dev_rx_intr_enable(id_, queue);
  } else {
    rte_eth_dev_rx_intr_disable(id_, queue);
  }
}

// A driver cannot tell a card that was taken out from one that is silent: reads give all ones. The kernel can.
void EthdevPort::look_for_card() {
  if (on_pci_ && !gone() && !read_pci_card(name_)) lose("card");
}

// The driver's socket stays with the interface that it was opened on, whatever is called the same later.
void EthdevPort::look_for_interface() {
  char name[IF_NAMESIZE];
  if (!is_on_netdev() || gone()) return;
  if (if_indextoname(interface_index_, name) == nullptr && errno == ENXIO) lose("interface");
}

void EthdevPort::lose(std::string_view what) {
  gone_.store(true, std::memory_order_relaxed);
  pause_.never_end();  // nobody polls it again
  note(fmt::format("port {} ({}): its {} has gone; the device is dead until the program starts again", name_, driver_,
                   what));
}

void EthdevPort::refresh_link() {
  look_for_card();
  look_for_interface();
  if (gone()) return link_up_.store(false, std::memory_order_relaxed);
  rte_eth_link link{};
  bool up = rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  // While pollers pause the port is not up, even if a late start brought its link up. reconnect() ends the pause.
  up = up && !pause_.lasts();
  // These drivers always report an up link, and lose frames while their interface is down.
  if (is_on_netdev()) up = up && netdev_running(netdev()).value_or(false);
  link_up_.store(up, std::memory_order_relaxed);
}

}  // namespace uroce::glue
