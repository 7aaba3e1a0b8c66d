// Memory regions by any of their descriptions (ibv_reg_mr_ex(3)), and buffers that the library allocates for them
// (ibv_alloc_buf(3)).
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "dropin/ibverbs/later_verbs.h"
#include "dropin/ibverbs/objects.h"

#undef ibv_reg_mr_iova

namespace uroce::dropin::later {

/// On pages of its own, so that registering it shares nothing else.
struct Buffer {
  ibv_pd* pd;
  std::byte* address;
  std::size_t size;
  std::size_t mapped;
};

namespace {

bool contains(const Buffer& buffer, const void* address, std::size_t length) {
  const auto first = reinterpret_cast<uintptr_t>(buffer.address);
  const auto asked = reinterpret_cast<uintptr_t>(address);
  if (asked < first || asked - first > buffer.size) return false;
  return length <= buffer.size - (asked - first);
}

ibv_mr* register_fd(ibv_pd* pd, const RegionInit& attr) {
  constexpr uint64_t kNeeded = RegionInit::kFd | RegionInit::kFdOffset | RegionInit::kIova;
  if (attr.fields != kNeeded) {
    return refuse_null(EINVAL, "ibv_reg_mr_ex(): a region of a descriptor has its offset and an iova, and no address");
  }
  return ibv_reg_dmabuf_mr(pd, attr.fd_offset, attr.length, attr.iova, attr.fd, attr.access);
}

ibv_mr* register_address(ibv_pd* pd, const RegionInit& attr) {
  constexpr uint64_t kAllowed = RegionInit::kAddress | RegionInit::kIova | RegionInit::kBuffer;
  if ((attr.fields & RegionInit::kAddress) == 0 || (attr.fields & ~kAllowed) != 0) {
    return refuse_null(EINVAL, "ibv_reg_mr_ex(): a region has an address and no offset, or a descriptor");
  }
  if ((attr.fields & RegionInit::kBuffer) != 0 &&
      (pd != attr.buffer->pd || !contains(*attr.buffer, attr.address, attr.length))) {
    return refuse_null(EINVAL, "ibv_reg_mr_ex(): the buffer is of another domain, or smaller than the region");
  }
  const bool moved = (attr.fields & RegionInit::kIova) != 0;
  const uint64_t iova = moved ? attr.iova : reinterpret_cast<uint64_t>(attr.address);
  return ibv_reg_mr_iova(pd, attr.address, attr.length, iova, attr.access);
}

}  // namespace

ibv_mr* reg_mr_ex(ibv_pd* pd, RegionInit* attr) {
  constexpr uint64_t kServed =
      RegionInit::kIova | RegionInit::kAddress | RegionInit::kFd | RegionInit::kFdOffset | RegionInit::kBuffer;
  if ((attr->fields & RegionInit::kDmaHandle) != 0) {
    return refuse_null(EOPNOTSUPP, "ibv_reg_mr_ex(): DMA handles are hints to a PCIe device, and there is none");
  }
  if ((attr->fields & ~kServed) != 0) {
    return refuse_null(EOPNOTSUPP, "ibv_reg_mr_ex(): comp_mask has bits of no known attribute");
  }
  return ((attr->fields & RegionInit::kFd) != 0 ? register_fd : register_address)(pd, *attr);
}

void* alloc_buf(ibv_pd* pd, std::size_t size, Buffer** buffer) {
  if (check_live(pd, EINVAL) != 0) return nullptr;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  if (size > SIZE_MAX - page) return failed_null(ENOMEM);
  const std::size_t mapped = (std::max<std::size_t>(size, 1) + page - 1) / page * page;
  void* const memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  *buffer = new Buffer{pd, static_cast<std::byte*>(memory), size, mapped};
  return memory;
}

void free_buf(Buffer* buffer) {
  const std::unique_ptr<Buffer> freed(buffer);
  munmap(freed->address, freed->mapped);
}

ibv_mr* reg_buf_mr(ibv_pd* pd, Buffer* buffer, void* address, std::size_t length, int access) {
  RegionInit attr{};
  attr.fields = RegionInit::kAddress | RegionInit::kBuffer;
  attr.length = length;
  attr.access = access;
  attr.address = address;
  attr.buffer = buffer;
  return reg_mr_ex(pd, &attr);
}

/// ibv_alloc_buf(3): ENODATA where no dma-buf is behind it.
int export_buf_dmabuf_fd(Buffer* /*buffer*/) { return minus_one(ENODATA); }

}  // namespace uroce::dropin::later
