// A host of NVMe over Fabrics on a device of the daemon, which asks a target what there is, writes, reads back and
// compares. Prints what it found. Anything but success ends it with code 1. SIGTERM makes the round the last one.
//
// Usage: nvmf_host DEVICE ADDRESS SUBSYSTEM HOST_NQN [QUEUES [ROUNDS]]
#include <arpa/inet.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <list>
#include <thread>

#include "support/nvmf_initiator.h"

namespace {

using namespace uroce;
using namespace uroce::test;
using nvme::Status;

constexpr uint32_t kCommandBytes = 64 << 10, kDepth = 8;

volatile std::sig_atomic_t told_to_stop = 0;

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

std::byte byte_of(uint64_t at, uint32_t round) { return static_cast<std::byte>((at * 2654435761u + round * 97) >> 11); }

void discover(InitiatorHost& host, const CmAddress& target, const std::string& subsystem, const std::string& nqn) {
  InitiatorQueue queue(host, target, 0, 32);
  (void)make_controller(queue, nvme::kDiscoveryNqn, nqn);
  require(status_of(queue.call(queue.keyed(log_command(nvme::kDiscoveryLog, 2048), 0, 2048))) == Status::success,
          "log");
  nvme::DiscoveryHeader header;
  nvme::DiscoveryEntry entry;
  std::memcpy(&header, queue.data().data(), sizeof header);
  std::memcpy(&entry, queue.data().data() + sizeof header, sizeof entry);
  require(header.records == 1 && subsystem == entry.subsystem_nqn.data(), "the log has another subsystem");
  std::printf("discovered %s at %.*s\n", entry.subsystem_nqn.data(), 16, entry.address.data());
}

/// kDepth commands of kCommandBytes each, from byte `start`.
void transfer(InitiatorQueue& queue, uint8_t opcode, uint64_t start, uint32_t block_bytes) {
  for (uint32_t i = 0; i < kDepth; ++i) {
    const uint64_t first = (start + uint64_t{i} * kCommandBytes) / block_bytes;
    (void)queue.submit(queue.keyed(io_command(opcode, 1, first, kCommandBytes / block_bytes),
                                   i * std::size_t{kCommandBytes}, kCommandBytes));
  }
  for (uint32_t i = 0; i < kDepth; ++i) {
    const auto response = queue.next();
    require(response && status_of(*response) == Status::success, "a command failed");
  }
}

void write_and_compare(InitiatorQueue& queue, uint64_t start, uint32_t block_bytes, uint32_t round) {
  const auto area = queue.data().first(std::size_t{kDepth} * kCommandBytes);
  for (std::size_t i = 0; i < area.size(); ++i) area[i] = byte_of(start + i, round);
  transfer(queue, nvme::kWrite, start, block_bytes);
  require(status_of(queue.call(io_command(nvme::kFlush, 1))) == Status::success, "Flush");
  std::ranges::fill(area, std::byte{0});
  transfer(queue, nvme::kRead, start, block_bytes);
  for (std::size_t i = 0; i < area.size(); ++i) require(area[i] == byte_of(start + i, round), "the bytes differ");
}

void run(int argc, char** argv) {
  require(argc >= 5, "usage: nvmf_host DEVICE ADDRESS SUBSYSTEM HOST_NQN [QUEUES [ROUNDS]]");
  in_addr address{};
  require(inet_pton(AF_INET, argv[2], &address) == 1, "ADDRESS is IPv4");
  const CmAddress target{Gid::from_ipv4(ntohl(address.s_addr)), 4420};
  const std::string subsystem = argv[3], nqn = argv[4];
  const auto queues = static_cast<uint16_t>(argc > 5 ? std::atoi(argv[5]) : 2);
  const auto rounds = static_cast<uint32_t>(argc > 6 ? std::atoi(argv[6]) : 4);
  InitiatorHost host({}, argv[1], [] { std::this_thread::yield(); });
  discover(host, target, subsystem, nqn);

  InitiatorQueue admin(host, target, 0, 32);
  const uint16_t controller = make_controller(admin, subsystem, nqn, 30000);
  require(status_of(admin.call(admin.keyed(admin_command(nvme::kIdentify, 1, nvme::kCnsNamespace), 0, 4096))) ==
              Status::success,
          "Identify");
  nvme::IdentifyNamespace disk;
  std::memcpy(&disk, admin.data().data(), sizeof disk);
  const uint32_t block_bytes = 1u << disk.formats[0].lbads;
  std::printf("controller %u, namespace of %llu blocks of %u bytes\n", controller,
              static_cast<unsigned long long>(disk.nsze), block_bytes);
  std::list<InitiatorQueue> io;
  for (uint16_t id = 1; id <= queues; ++id) {
    io.emplace_back(host, target, id, 32);
    require(status_of(io.back().connect(subsystem, nqn, id, controller)) == Status::success, "Connect of an I/O queue");
  }
  std::printf("%u queues are open\n", queues);
  uint64_t start = 0;
  uint32_t round = 0;
  for (; round < rounds && told_to_stop == 0; ++round) {
    for (InitiatorQueue& queue : io) {
      if (start + kDepth * kCommandBytes > disk.nsze * block_bytes) start = 0;
      write_and_compare(queue, start, block_bytes, round);
      start += kDepth * kCommandBytes;
    }
  }
  std::printf("%u rounds on %u queues verified\n", round, queues);
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { told_to_stop = 1; });
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a test may wait for a line, and end this program in the middle
  try {
    run(argc, argv);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "nvmf_host: %s\n", e.what());
    return 1;
  }
}
