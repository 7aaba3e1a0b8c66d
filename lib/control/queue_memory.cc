#include "control/queue_memory.h"

#include <cerrno>
#include <cstring>
#include <new>

#include <fmt/format.h>

namespace uroce::control {
namespace {

constexpr std::align_val_t kAlignment{64};

class HeapMemory final : public QueueMemory {
 public:
  HeapMemory(std::byte* data, std::size_t size) : QueueMemory(data, size) {}
  ~HeapMemory() override { ::operator delete(data(), kAlignment); }
};

}  // namespace

Result<std::unique_ptr<QueueMemory>> HeapAllocator::allocate(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(::operator new(bytes, kAlignment, std::nothrow));
  if (data == nullptr) {
    return fail(ENOMEM, fmt::format("no memory for queues of {} bytes; ask for fewer entries", bytes));
  }
  // Writes every page, so that the data path has no page faults.
  std::memset(data, 0, bytes);
  return std::make_unique<HeapMemory>(data, bytes);
}

}  // namespace uroce::control
