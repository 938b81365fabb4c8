// `m3c inspect`: a plan file at a glance.
#include "compiler/report/PlanReport.h"

#include "runtime/base/Progress.h"
#include "runtime/plan/Checksum.h"
#include "runtime/plan/List.h"

#include <fmt/format.h>

namespace m3c {

using nlohmann::ordered_json;

namespace {

ordered_json sectionsJson(const plan::PlanFile &file) {
  ordered_json out = ordered_json::array();
  for (uint32_t i = 0; i < file.sectionCount(); ++i) {
    const plan::SectionEntry &entry = file.section(i);
    out.push_back({{"index", i},
                   {"kind", plan::sectionKindName(plan::SectionKind(entry.kind))},
                   {"offset", entry.offset},
                   {"bytes", entry.size},
                   {"digest", plan::loadDigest(entry.digest).hex()}});
  }
  return out;
}

uint64_t codeBytes(const plan::PlanFile &file) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < file.sectionCount(); ++i)
    if (file.section(i).kind == uint32_t(plan::SectionKind::Code))
      bytes += file.section(i).size;
  return bytes;
}

ordered_json weightTotals(const plan::Tables &tables) {
  uint64_t bytes = 0, tensors = 0;
  for (const plan::WeightBuffer *weight : plan::list(tables.weights())) {
    bytes += weight->bytes();
    tensors += plan::list(weight->pieces()).size();
  }
  return {{"buffers", plan::list(tables.weights()).size()}, {"tensors", tensors}, {"bytes", bytes}};
}

} // namespace

ordered_json inspectJson(const plan::PlanFile &file, const InspectDetail &detail) {
  ordered_json tables = tablesJson(file);
  ordered_json out = {{"plan", file.name()},
                      {"bytes", file.bytes().size()},
                      {"sections_count", file.sectionCount()},
                      {"code_bytes", codeBytes(file)},
                      {"manifest", manifestOf(file)},
                      {"model", tables["model"]},
                      {"cache", tables["cache"]},
                      {"targets", tables["targets"]},
                      {"weights_total", weightTotals(file.tables())},
                      {"kernels", tables["kernels"]},
                      {"buckets", ordered_json::array()},
                      {"extras", tables["extras"]}};
  for (ordered_json bucket : tables["buckets"]) {
    bucket["launch_count"] = bucket["launches"].size();
    bucket["tap_count"] = bucket["taps"].size();
    if (!detail.launches) {
      bucket.erase("launches");
      bucket.erase("taps");
    }
    out["buckets"].push_back(std::move(bucket));
  }
  if (detail.weights)
    out["weights"] = tables["weights"];
  if (detail.sections)
    out["sections"] = sectionsJson(file);
  return out;
}

namespace {

std::string str(const ordered_json &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void addManifest(std::string &out, const ordered_json &manifest) {
  for (const auto &[key, value] : manifest.items())
    if (value.is_string() || value.is_number())
      out += fmt::format("  {:<14} {}\n", key, str(value));
}

/// What a target that is not complete has of another chip.
void addStandIns(std::string &out, const ordered_json &target) {
  if (target["fallback_chip"] == "")
    return;
  out += fmt::format("        it is not complete: {} of its {} launches are of kernels for {}; "
                     "--emulate {} runs it\n",
                     str(target["launches_of_fallback"]), str(target["launches"]),
                     str(target["fallback_chip"]), str(target["name"]));
}

void addBuckets(std::string &out, const ordered_json &buckets) {
  out += fmt::format("buckets {}\n", buckets.size());
  for (const ordered_json &bucket : buckets) {
    out +=
        fmt::format("  {:<12} {:>5} rows, {:>4} logit rows: {} launches, arena {} + {} a block\n",
                    str(bucket["chip"]), str(bucket["rows"]), str(bucket["logit_rows"]),
                    str(bucket["launch_count"]), byteText(bucket["arena_bytes"]),
                    byteText(bucket["arena_bytes_per_block"]));
    if (bucket.contains("launches"))
      for (const ordered_json &launch : bucket["launches"])
        out += fmt::format("        {:<32} {} [{}]\n", str(launch["label"]), str(launch["kernel"]),
                           fmt::join(launch["grid"].get<std::vector<std::string>>(), ", "));
  }
}

} // namespace

std::string codeText(const ordered_json &object) {
  std::string out = byteText(object["bytes"]);
  if (object["registers"] != 0)
    out += fmt::format(", {} registers", str(object["registers"]));
  if (object["spill_bytes"] != 0)
    out += fmt::format(", {} bytes spilled", str(object["spill_bytes"]));
  return out;
}

std::string inspectText(const ordered_json &plan) {
  std::string out = fmt::format("{}: {}, {} sections, {} of machine code\n", str(plan["plan"]),
                                byteText(plan["bytes"]), str(plan["sections_count"]),
                                byteText(plan["code_bytes"]));
  addManifest(out, plan["manifest"]);
  const ordered_json &model = plan["model"], &cache = plan["cache"];
  out += fmt::format("model   {}: {} layers, width {}, {} heads, {} KV heads, vocabulary {}\n",
                     str(model["model_type"]), str(model["layers"]), str(model["hidden"]),
                     str(model["heads"]), str(model["kv_heads"]), str(model["vocab"]));
  out += fmt::format("cache   {}, grid {}: {} a page of {} tokens\n", str(cache["type"]),
                     str(cache["grid"]), byteText(cache["page_bytes"]), str(cache["page_tokens"]));
  if (const ordered_json semantics = plan["manifest"].value("semantics", ordered_json::object());
      semantics.contains("activations"))
    out += fmt::format("numerics activations {}\n", str(semantics["activations"]));
  for (const ordered_json &target : plan["targets"]) {
    out +=
        fmt::format("target  {} for {} (needs {}): {}\n", str(target["name"]), str(target["chip"]),
                    fmt::join(target["required_features"].get<std::vector<std::string>>(), ", "),
                    str(target["proof"]));
    addStandIns(out, target);
  }
  const ordered_json &weights = plan["weights_total"];
  out += fmt::format("weights {} buffers from {} tensors, {}\n", str(weights["buffers"]),
                     str(weights["tensors"]), byteText(weights["bytes"]));
  if (plan.contains("weights"))
    for (const ordered_json &weight : plan["weights"])
      out += fmt::format("  {:<40} {:<11} {}\n", str(weight["symbol"]), str(weight["recipe"]),
                         byteText(weight["bytes"]));
  out += fmt::format("kernels {}\n", plan["kernels"].size());
  for (const ordered_json &kernel : plan["kernels"]) {
    out += fmt::format("  {:<40} {}", str(kernel["name"]), str(kernel["family"]));
    for (const ordered_json &object : kernel["objects"])
      out += fmt::format("  {} {}", str(object["chip"]), codeText(object));
    out += "\n";
  }
  addBuckets(out, plan["buckets"]);
  if (plan.contains("sections"))
    for (const ordered_json &section : plan["sections"])
      out += fmt::format("section {:>4} {:<9} {:>10} {:>10} {}\n", str(section["index"]),
                         str(section["kind"]), str(section["offset"]), str(section["bytes"]),
                         str(section["digest"]));
  return out;
}

} // namespace m3c
