#include "privilege/privilege.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "privilege/devices.h"
#include "privilege/system_calls.h"
#include "privilege/thread_call.h"

namespace uroce::privilege {
namespace {

constexpr uid_t kNobody = 65534;

/// Rights cannot be had back, so each test gives up those of a child. Its exit code: 0 for success.
int in_child(const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() & 0xff);
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}
int failed(int line, const char* condition) {
  std::fprintf(stderr, "line %d of the child: %s: %s\n", line, condition, std::strerror(errno));
  return 1;
}
#define MUST(condition) \
  if (const bool held = static_cast<bool>(condition); !held) return failed(__LINE__, #condition)

/// The fields of /proc/self/task/*/status, thread by thread.
std::vector<std::map<std::string, std::string>> threads() {
  std::vector<std::map<std::string, std::string>> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "status");
    std::map<std::string, std::string> fields;
    for (std::string key, value; file >> key && std::getline(file, value);) {
      fields[key] = value.substr(std::min(value.find_first_not_of(" \t"), value.size()));
    }
    if (fields.contains("CapEff:")) out.push_back(std::move(fields));  // others have ended
  }
  return out;
}

bool all_threads(const std::string& key, const std::string& value) {
  for (auto& fields : threads()) {
    if (fields[key] != value) return false;
  }
  return true;
}

/// Threads that sleep in the kernel, spin, and start others, until they are told to end.
class BusyThreads {
 public:
  BusyThreads() {
    threads_.emplace_back([this] {
      pollfd none{-1, 0, 0};
      while (!stop_) poll(&none, 1, 10);
    });
    threads_.emplace_back([this] {
      while (!stop_) ++spins_;
    });
    threads_.emplace_back([this] {
      while (!stop_) std::thread([] {}).join();
    });
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& one : threads_) one.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> spins_{0};
  std::vector<std::thread> threads_;
};

TEST(ThreadCall, ReachesEveryThreadAndNotTheCaller) {
  static std::atomic<int> calls{0};
  static std::atomic<pid_t> caller{0};
  static std::atomic<bool> called_itself{false};
  caller = gettid();
  const BusyThreads busy;
  const auto done = on_other_threads([] {
    ++calls;
    if (syscall(SYS_gettid) == caller) called_itself = true;
  });
  ASSERT_TRUE(done) << done.error().text;
  EXPECT_GE(calls, 3);
  EXPECT_FALSE(called_itself);
}

TEST(ThreadCall, NamesAThreadThatBlocksTheSignal) {
  std::atomic<bool> stop{false}, blocked{false};
  std::thread deaf([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    prctl(PR_SET_NAME, "deaf");
    blocked = true;
    while (!stop) usleep(1000);
  });
  while (!blocked) usleep(1000);
  const auto done = on_other_threads([] {}, std::chrono::milliseconds(50));
  stop = true;
  deaf.join();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ETIMEDOUT);
  EXPECT_NE(done.error().text.find("(deaf)"), std::string::npos) << done.error().text;
}

TEST(Privilege, NoDriverButTwoNeedsRightsToClose) {
  const Capabilities net_admin = Capabilities{1} << CAP_NET_ADMIN;
  EXPECT_EQ(needed_to_close(std::vector<std::string>{"net_af_packet", "net_memif", "net_virtio"}), 0u);
  EXPECT_EQ(needed_to_close(std::vector<std::string>{"net_ring", "net_tap"}), net_admin);
  EXPECT_EQ(needed_to_close(std::vector<std::string>{"net_af_xdp"}), net_admin);
}

class AsRoot : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root has rights to give up";
  }
  const Account nobody_{.name = "nobody", .uid = kNobody, .gid = kNobody};
};

TEST_F(AsRoot, EveryThreadBecomesTheUserWithoutCapabilities) {
  EXPECT_EQ(in_child([this] {
              const BusyThreads busy;
              const gid_t group = 12345;
              MUST(give_up_privileges(nobody_, std::span(&group, 1), 0));
              MUST(all_threads("Uid:", "65534\t65534\t65534\t65534"));
              MUST(all_threads("Gid:", "65534\t65534\t65534\t65534"));
              for (const char* set : {"CapEff:", "CapPrm:", "CapInh:", "CapAmb:"}) {
                MUST(all_threads(set, "0000000000000000"));
              }
              MUST(threads()[0]["Groups:"].find("12345") != std::string::npos);
              MUST(setuid(0) != 0);
              return 0;
            }),
            0);
}

TEST_F(AsRoot, TheMainThreadAloneKeepsWhatClosingNeeds) {
  EXPECT_EQ(in_child([this] {
              const BusyThreads busy;
              MUST(give_up_privileges(nobody_, {}, Capabilities{1} << CAP_NET_ADMIN));
              std::atomic<bool> stop{false};
              std::thread later([&] {
                while (!stop) usleep(1000);
              });
              const auto kept = keep_capabilities_on_main_thread();
              int with = 0;
              for (auto& fields : threads()) with += fields["CapEff:"] == "0000000000001000" ? 1 : 0;
              stop = true;
              later.join();
              MUST(kept);
              MUST(with == 1);
              return 0;
            }),
            0);
}

TEST_F(AsRoot, AmbientCapabilitiesOfAnotherUserGoAsWell) {
  EXPECT_EQ(in_child([] {
              prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
              MUST(setresuid(kNobody, kNobody, kNobody) == 0);
              __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
              const uint32_t raw = 1u << CAP_NET_RAW;
              __user_cap_data_struct sets[2]{{.effective = raw, .permitted = raw, .inheritable = raw}, {}};
              MUST(syscall(SYS_capset, &header, sets) == 0);
              MUST(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0) == 0);
              const BusyThreads busy;
              MUST(give_up_privileges(std::nullopt, {}, 0));
              for (const char* set : {"CapEff:", "CapPrm:", "CapInh:", "CapAmb:"}) {
                MUST(all_threads(set, "0000000000000000"));
              }
              return 0;
            }),
            0);
}

TEST(SystemCalls, TheFilterHoldsOnEveryThreadThatRanBefore) {
  EXPECT_EQ(in_child([] {
              std::atomic<bool> stop{false}, refused{false};
              std::thread before([&] {
                while (!stop) usleep(1000);
                refused = execl("/bin/true", "true", nullptr) == -1 && errno == ENOSYS;
              });
              prepare_privileges();
              if (const auto limited = limit_system_calls(); !limited) return 77;
              stop = true;
              before.join();
              MUST(refused);
              MUST(all_threads("Seccomp:", "2"));
              MUST(all_threads("NoNewPrivs:", "1"));
              return 0;
            }),
            0);
}

TEST(SystemCalls, RefusesWhatADaemonDoesNotDo) {
  EXPECT_EQ(in_child([] {
              prepare_privileges();
              MUST(limit_system_calls());
              MUST(fork() == -1 && errno == ENOSYS);
              MUST(kill(getppid(), 0) == -1 && errno == ENOSYS);
              for (const long number : {SYS_ptrace, SYS_mount, SYS_init_module, SYS_bpf, SYS_setresuid, SYS_unshare,
                                        SYS_setns, SYS_keyctl, SYS_reboot, SYS_process_vm_readv, SYS_perf_event_open,
                                        SYS_clone3, SYS_io_uring_setup, SYS_userfaultfd}) {
                MUST(syscall(number, 0, 0, 0, 0, 0, 0) == -1 && errno == ENOSYS);
              }
              MUST(socket(AF_VSOCK, SOCK_STREAM, 0) == -1 && errno == ENOSYS);
              MUST(mmap(nullptr, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
              return 0;
            }),
            0);
}

TEST(Devices, CannotBeOpenedByAnyThread) {
  EXPECT_EQ(in_child([] {
              const int open_before = open("/dev/full", O_RDWR);
              MUST(open_before >= 0);
              prepare_privileges();
              std::atomic<bool> stop{false}, refused{false};
              std::thread before([&] {
                while (!stop) usleep(1000);
                refused = open("/dev/full", O_RDONLY) == -1 && errno == EACCES;
              });
              // Without rights, as the programs do it.
              if (geteuid() == 0) MUST(give_up_privileges(Account{"nobody", kNobody, kNobody}, {}, 0));
              const auto denied = deny_devices();
              stop = true;
              before.join();
              if (!denied) return 77;
              MUST(refused);
              MUST(open("/dev/full", O_RDWR) == -1 && errno == EACCES);
              char byte = 0;
              MUST(read(open_before, &byte, 1) == 1);
              MUST(open("/dev/null", O_RDWR) >= 0);
              MUST(std::ifstream("/proc/self/status").good());
              MUST(open("/tmp", O_TMPFILE | O_RDWR, 0600) >= 0);
              return 0;
            }),
            0);
}

TEST(SystemCalls, AllowsMoreByName) {
  EXPECT_EQ(in_child([] {
              prepare_privileges();
              constexpr const char* kMore[] = {"io_uring_enter"};
              MUST(limit_system_calls(kMore));
              MUST(syscall(SYS_io_uring_enter, -1, 0, 0, 0, nullptr, 0) == -1 && errno != ENOSYS);
              MUST(syscall(SYS_io_uring_setup, 1, nullptr) == -1 && errno == ENOSYS);
              MUST(fork() == -1 && errno == ENOSYS);
              return 0;
            }),
            0);
}

TEST(SystemCalls, AllowsWhatADaemonDoes) {
  EXPECT_EQ(in_child([] {
              prepare_privileges();
              MUST(limit_system_calls());
              int ran = 0;
              std::thread([&] { ran = 1; }).join();
              MUST(ran == 1);
              MUST(socket(AF_UNIX, SOCK_SEQPACKET, 0) >= 0 && socket(AF_INET6, SOCK_DGRAM, 0) >= 0);
              const int memory = memfd_create("queues", MFD_CLOEXEC | MFD_ALLOW_SEALING);
              MUST(ftruncate(memory, 4096) == 0 && fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
              MUST(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0) != MAP_FAILED);
              MUST(std::ifstream("/proc/self/status").good());
              MUST(on_other_threads([] {}));
              MUST(raise(0) == 0);
              return 0;
            }),
            0);
}

}  // namespace
}  // namespace uroce::privilege
