// Structures and numbers of NVMe (base specification 1.4), NVMe over Fabrics 1.1 and its RDMA transport binding 1.0.
//
// All members are little-endian and naturally aligned, so a structure is the bytes on the wire (uroce runs on
// little-endian hosts, base/bytes.h). Names are the specification's abbreviations, written out where they say nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::nvmf::nvme {

inline constexpr char kDiscoveryNqn[] = "nqn.2014-08.org.nvmexpress.discovery";
inline constexpr std::size_t kMaxNqn = 223;  ///< bytes, without the terminator (NVMe 1.4, 7.9)
inline constexpr uint32_t kPageBytes = 4096;
inline constexpr uint16_t kDynamicController = 0xffff;
inline constexpr uint32_t kAllNamespaces = 0xffffffff;

// --- Commands ------------------------------------------------------------------------------------------------------

enum AdminOpcode : uint8_t {
  kGetLogPage = 0x02,
  kIdentify = 0x06,
  kAbort = 0x08,
  kSetFeatures = 0x09,
  kGetFeatures = 0x0a,
  kAsyncEventRequest = 0x0c,
  kKeepAlive = 0x18,
};
enum IoOpcode : uint8_t { kFlush = 0x00, kWrite = 0x01, kRead = 0x02, kWriteZeroes = 0x08, kDatasetManagement = 0x09 };
inline constexpr uint8_t kFabrics = 0x7f;
enum FabricsType : uint8_t { kPropertySet = 0x00, kConnect = 0x01, kPropertyGet = 0x04, kDisconnect = 0x08 };

/// A submission queue entry, the beginning of each command capsule. For fabrics commands the low byte of `nsid` is the
/// fabrics type (FCTYPE).
struct Command {
  uint8_t opcode;
  uint8_t flags;        ///< bits 1:0 FUSE, 7:6 PSDT
  uint16_t command_id;  ///< the host's, returned in the response
  uint32_t nsid;
  uint32_t cdw2, cdw3;
  uint64_t metadata;
  std::array<uint8_t, 16> sgl;
  uint32_t cdw10, cdw11, cdw12, cdw13, cdw14, cdw15;

  uint8_t fabrics_type() const { return static_cast<uint8_t>(nsid); }
};
static_assert(sizeof(Command) == 64);

/// A completion queue entry: the response capsule.
struct Response {
  uint64_t result;
  uint16_t sq_head;
  uint16_t sq_id;  ///< reserved in Fabrics
  uint16_t command_id;
  uint16_t status;  ///< Status << 1
};
static_assert(sizeof(Response) == 16);

/// Status field without the phase bit: status code type << 8 | status code, and DNR.
enum class Status : uint16_t {
  success = 0x0000,
  invalid_opcode = 0x0001,
  invalid_field = 0x0002,
  data_transfer_error = 0x0004,
  internal_error = 0x0006,
  aborted = 0x0007,
  invalid_namespace = 0x000b,
  command_sequence_error = 0x000c,
  sgl_length_invalid = 0x000f,
  sgl_type_invalid = 0x0011,
  sgl_offset_invalid = 0x0016,
  keep_alive_invalid = 0x001a,
  lba_out_of_range = 0x0080,
  capacity_exceeded = 0x0081,
  async_event_limit = 0x0105,
  invalid_log_page = 0x0109,
  feature_not_saveable = 0x010d,
  feature_not_changeable = 0x010e,
  connect_format = 0x0180,
  connect_controller_busy = 0x0181,
  connect_invalid_parameters = 0x0182,
  connect_invalid_host = 0x0184,
  write_fault = 0x0280,
  read_error = 0x0281,
};
inline constexpr uint16_t kDoNotRetry = 0x4000;

// --- SGL descriptors -------------------------------------------------------------------------------------------------

inline constexpr uint8_t kPsdtMask = 0xc0, kPsdtSgl = 0x40;
inline constexpr uint8_t kFuseMask = 0x03;
/// Type and sub type, the last byte of a descriptor.
enum SglType : uint8_t { kSglOffset = 0x01, kSglKeyed = 0x40, kSglKeyedInvalidate = 0x4f };

// --- Fabrics -----------------------------------------------------------------------------------------------------

/// Data of Connect.
struct ConnectData {
  std::array<uint8_t, 16> host_id;
  uint16_t controller_id;
  std::array<uint8_t, 238> reserved;
  std::array<char, 256> subsystem_nqn;
  std::array<char, 256> host_nqn;
  std::array<uint8_t, 256> reserved2;
};
static_assert(sizeof(ConnectData) == 1024);

/// CATTR of Connect: the host does without flow control of the submission queue.
inline constexpr uint8_t kDisableSqFlow = 1u << 2;

enum Property : uint32_t {
  kCap = 0x00,
  kVs = 0x08,
  kCc = 0x14,
  kCsts = 0x1c,
  // Of parts that CAP says are not there.
  kNssr = 0x20,
  kCmbloc = 0x38,
  kCmbsz = 0x3c,
  kBpinfo = 0x40,
  kPmrcap = 0xe00,
};
inline constexpr uint32_t kVersion = 0x00010400;  ///< 1.4.0
inline constexpr uint32_t kCcEnable = 1, kCstsReady = 1, kCstsFatal = 2, kCstsShutdownComplete = 2u << 2;

/// Private data of the RDMA connection request, its accept and its reject (RDMA binding, 7.3.6.2).
struct CmRequest {
  uint16_t format;  ///< 0
  uint16_t queue_id;
  uint16_t host_receive_size;  ///< HRQSIZE
  uint16_t host_send_size;     ///< HSQSIZE, 0's based
  uint16_t controller_id;
  std::array<uint8_t, 22> reserved;
};
struct CmAccept {
  uint16_t format;
  uint16_t controller_receive_size;  ///< CRQSIZE
  std::array<uint8_t, 28> reserved;
};
struct CmReject {
  uint16_t format;
  uint16_t status;
};
static_assert(sizeof(CmRequest) == 32 && sizeof(CmAccept) == 32 && sizeof(CmReject) == 4);
enum class CmStatus : uint16_t {
  invalid_length = 1,
  invalid_format = 2,
  invalid_queue_id = 3,
  invalid_send_size = 4,
  invalid_receive_size = 5,
  no_resources = 6,
  invalid_read_depth = 7,  ///< IRD
};

// --- Identify ------------------------------------------------------------------------------------------------------

enum IdentifyCns : uint8_t { kCnsNamespace = 0, kCnsController = 1, kCnsActiveList = 2, kCnsDescriptors = 3 };

struct IdentifyController {
  uint16_t vid, ssvid;
  std::array<char, 20> serial_number;
  std::array<char, 40> model_number;
  std::array<char, 8> firmware;
  uint8_t rab;
  std::array<uint8_t, 3> ieee;
  uint8_t cmic;
  uint8_t mdts;  ///< in powers of two of pages
  uint16_t cntlid;
  uint32_t version, rtd3r, rtd3e, oaes, ctratt;
  std::array<uint8_t, 11> reserved100;
  uint8_t cntrltype;
  std::array<uint8_t, 144> reserved112;
  uint16_t oacs;
  uint8_t acl, aerl, frmw, lpa, elpe, npss, avscc, apsta;
  uint16_t wctemp, cctemp;
  std::array<uint8_t, 50> reserved270;
  uint16_t kas;  ///< granularity of the keep alive timer, 100 ms
  std::array<uint8_t, 190> reserved322;
  uint8_t sqes, cqes;
  uint16_t maxcmd;
  uint32_t nn;
  uint16_t oncs, fuses;
  uint8_t fna, vwc;
  uint16_t awun, awupf;
  uint8_t nvscc, nwpc;
  uint16_t acwu, reserved534;
  uint32_t sgls;
  uint32_t mnan;
  std::array<uint8_t, 224> reserved544;
  std::array<char, 256> subnqn;
  std::array<uint8_t, 768> reserved1024;
  uint32_t ioccsz, iorcsz;  ///< in 16 bytes
  uint16_t icdoff;          ///< in 16 bytes
  uint8_t fcatt, msdbd;
  uint16_t ofcs;
  std::array<uint8_t, 242> reserved1806;
  std::array<uint8_t, 2048> power_states;
};
static_assert(sizeof(IdentifyController) == 4096);
static_assert(offsetof(IdentifyController, version) == 80 && offsetof(IdentifyController, cntrltype) == 111);
static_assert(offsetof(IdentifyController, oacs) == 256 && offsetof(IdentifyController, kas) == 320);
static_assert(offsetof(IdentifyController, sqes) == 512 && offsetof(IdentifyController, sgls) == 536);
static_assert(offsetof(IdentifyController, subnqn) == 768 && offsetof(IdentifyController, ioccsz) == 1792);
static_assert(offsetof(IdentifyController, power_states) == 2048);

struct IdentifyNamespace {
  uint64_t nsze, ncap, nuse;  ///< blocks
  uint8_t nsfeat, nlbaf, flbas, mc, dpc, dps, nmic, rescap, fpi, dlfeat;
  std::array<uint8_t, 70> reserved34;
  std::array<uint8_t, 16> nguid;
  std::array<uint8_t, 8> eui64;
  struct Format {
    uint16_t ms;
    uint8_t lbads;  ///< log2 of the block size
    uint8_t rp;
  };
  std::array<Format, 16> formats;
  std::array<uint8_t, 3904> reserved192;
};
static_assert(sizeof(IdentifyNamespace) == 4096);
static_assert(offsetof(IdentifyNamespace, nguid) == 104 && offsetof(IdentifyNamespace, formats) == 128);

/// Namespace identification descriptor types.
enum NamespaceIdType : uint8_t { kNguid = 2 };

// --- Features and log pages ----------------------------------------------------------------------------------------

enum Feature : uint8_t {
  kArbitration = 0x01,
  kPowerManagement = 0x02,
  kTemperatureThreshold = 0x04,
  kErrorRecovery = 0x05,
  kVolatileWriteCache = 0x06,
  kNumberOfQueues = 0x07,
  kWriteAtomicity = 0x0a,
  kAsyncEventConfig = 0x0b,
  kKeepAliveTimer = 0x0f,
};

enum LogPage : uint8_t {
  kErrorLog = 0x01,
  kHealthLog = 0x02,
  kFirmwareLog = 0x03,
  kChangedNamespaces = 0x04,
  kDiscoveryLog = 0x70
};

inline constexpr uint32_t kRetainEvent = 1u << 15;      ///< in CDW10 of Get Log Page
inline constexpr std::size_t kMostChanged = 1024;       ///< entries of the log of changed namespaces
inline constexpr uint32_t kNamespaceNotices = 1u << 8;  ///< in OAES and the feature
/// CDW0 of an event's response: the log page, the event "namespace attribute changed", the type "notice".
inline constexpr uint32_t kNamespaceNotice = uint32_t{kChangedNamespaces} << 16 | 0u << 8 | 2;

/// WCTEMP and CCTEMP as NVMe 1.4 (5.15.2.2) recommends them, Kelvin.
inline constexpr uint16_t kWarningKelvin = 0x157, kCriticalKelvin = 0x175;

struct DiscoveryHeader {
  uint64_t generation;
  uint64_t records;
  uint16_t format;
  std::array<uint8_t, 1006> reserved;
};
struct DiscoveryEntry {
  uint8_t transport;       ///< 1: RDMA
  uint8_t address_family;  ///< 1: IPv4, 2: IPv6
  uint8_t subsystem_type;  ///< 1: discovery, 2: NVM
  uint8_t requirements;
  uint16_t port_id;
  uint16_t controller_id;
  uint16_t admin_queue_size;
  std::array<uint8_t, 22> reserved;
  std::array<char, 32> service_id;
  std::array<uint8_t, 192> reserved64;
  std::array<char, 256> subsystem_nqn;
  std::array<char, 256> address;
  struct Rdma {
    uint8_t qp_type;   ///< 1: connected
    uint8_t provider;  ///< 4: RoCE v2
    uint8_t cm;        ///< 1: RDMA_IP_CM
    std::array<uint8_t, 5> reserved;
    uint16_t pkey;
    std::array<uint8_t, 246> reserved10;
  } rdma;
};
static_assert(sizeof(DiscoveryHeader) == 1024 && sizeof(DiscoveryEntry) == 1024);
static_assert(offsetof(DiscoveryEntry, subsystem_nqn) == 256 && offsetof(DiscoveryEntry, rdma) == 768);

/// SMART / health information, of which a disk in software knows little.
struct HealthLog {
  uint8_t critical_warning;
  std::array<uint8_t, 2> temperature;  ///< Kelvin, unaligned
  uint8_t available_spare, spare_threshold, percentage_used;
  std::array<uint8_t, 506> reserved;
};
struct FirmwareLog {
  uint8_t active_slot;
  std::array<uint8_t, 7> reserved;
  std::array<std::array<char, 8>, 7> revisions;
  std::array<uint8_t, 448> reserved64;
};
static_assert(sizeof(HealthLog) == 512 && sizeof(FirmwareLog) == 512);

/// A range of Dataset Management.
struct DatasetRange {
  uint32_t attributes;
  uint32_t blocks;
  uint64_t first_block;
};
static_assert(sizeof(DatasetRange) == 16);
inline constexpr uint32_t kDeallocate = 1u << 2;
inline constexpr uint32_t kForceUnitAccess = 1u << 30;  ///< in CDW12

}  // namespace uroce::nvmf::nvme
