#include "service/xrc_operations.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>

#include "control/cq.h"
#include "control/qp.h"
#include "control/srq.h"
#include "service/memory_file.h"
#include "service/object_operations.h"

namespace uroce::service {
namespace {

Result<Reply> add_target(ClientState& client, Charge charge, Result<std::shared_ptr<control::ControlQp>> qp) {
  if (!qp) return std::unexpected(qp.error());
  const uint32_t qpn = (*qp)->qpn();
  return reply(client, message::XrcTargetReply{.id = client.qps.add(std::move(*qp), std::move(charge)), .qpn = qpn});
}

}  // namespace

// Clients that pass descriptors of one inode share a domain, as on a kernel's device (ib_uverbs_open_xrcd). Any open
// file will do there, whether for reading or for writing. A descriptor with O_PATH is none: it needs no right to the
// file (open(2)).
Result<HeldFile> hold_file(const message::Fd& fd) {
  if (is_path_only(fd.get())) {
    return fail(EBADF, "an XRC domain's file must be opened for reading or for writing, and not with O_PATH");
  }
  const auto local = is_local_file(fd.get());
  if (!local) return std::unexpected(local.error());
  if (!*local) {
    return fail(EOPNOTSUPP,
                "an XRC domain's file must be of tmpfs or of a local disk, because others may make the daemon wait; "
                "use one in /dev/shm");
  }
  struct stat about{};
  HeldFile held{.fd = std::make_shared<message::Fd>(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0))};
  if (!*held.fd || fstat(held.fd->get(), &about) != 0) {
    const int code = errno;
    return fail(code, fmt::format("cannot open an XRC domain: its file: {}", std::strerror(code)));
  }
  held.file = {.device = about.st_dev, .inode = about.st_ino};
  return held;
}

Result<Reply> open_xrc_domain(ClientState& client, const message::OpenXrcDomain& request, Call& call) {
  if (call.fds.size() > 1) {
    return fail(EINVAL, fmt::format("an XRC domain has one file, but {} descriptors came", call.fds.size()));
  }
  auto charge = client.charge(Resource::pd);
  if (!charge) return std::unexpected(charge.error());
  auto opened = std::make_shared<ClientXrcDomain>();
  HeldFile held;
  if (!call.fds.empty()) {
    auto descriptor = client.charge(Resource::descriptor);
    if (!descriptor) return std::unexpected(descriptor.error());
    opened->descriptor = std::move(*descriptor);
    auto file = hold_file(call.fds[0]);
    if (!file) return std::unexpected(file.error());
    held = std::move(*file);
  }
  const std::optional<control::XrcFile> file = held.fd != nullptr ? std::optional(held.file) : std::nullopt;
  auto domain = control::XrcDomain::open(client.session->device(), file,
                                         {.create = request.create, .exclusive = request.exclusive}, held.fd);
  if (!domain) return std::unexpected(domain.error());
  opened->domain = std::move(*domain);
  return reply(client, message::Handle{client.xrc_domains.add(std::move(opened), std::move(*charge))});
}

Result<Reply> create_xrc_srq(ClientState& client, const message::CreateXrcSrq& request) {
  auto domain = client.xrc_domains.find(request.domain);
  if (!domain) return std::unexpected(domain.error());
  auto cq = client.cqs.find(request.cq);
  if (!cq) return std::unexpected(cq.error());
  return create_srq_of(client, request.srq, {.domain = (*domain)->domain, .cq = std::move(*cq)});
}

Result<Reply> create_xrc_target(ClientState& client, const message::CreateXrcTarget& request) {
  auto charge = client.charge(Resource::qp);
  if (!charge) return std::unexpected(charge.error());
  auto domain = client.xrc_domains.find(request.domain);
  if (!domain) return std::unexpected(domain.error());
  const QpInit init{.retransmission = request.retransmission, .congestion_control = request.congestion_control};
  return add_target(client, std::move(*charge), client.session->create_xrc_target((*domain)->domain, init));
}

Result<Reply> open_xrc_target(ClientState& client, const message::OpenXrcTarget& request) {
  auto charge = client.charge(Resource::qp);
  if (!charge) return std::unexpected(charge.error());
  auto domain = client.xrc_domains.find(request.domain);
  if (!domain) return std::unexpected(domain.error());
  return add_target(client, std::move(*charge), client.session->open_xrc_target((*domain)->domain, request.qpn));
}

}  // namespace uroce::service
