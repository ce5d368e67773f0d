/** Conditions of training: the device's signals and the policy's limits. */

import { bytes, decimal, duration } from "./format";
import type { Device, Policy, Signal } from "../daemon/types";

export interface Condition {
  /** Its name in blocked_by. */
  name: string;
  title: string;
  /** null if it is unknown. */
  value: string | null;
  /** Why the value is unknown, or its source. */
  note: string;
  /** null if the policy has none. */
  limit: string | null;
  isBlocking: boolean;
  /** How close the value is to the limit, 0 to 1, null if that means nothing. */
  share: number | null;
}

type Show = (value: number) => string;

interface Level {
  name: string;
  title: string;
  signal: string;
  show: Show;
  /** The settings at which training stops and resumes. */
  stop: string;
  resume?: string;
  isMinimum: boolean;
}

const asPercent: Show = (value) => `${decimal(value)} %`;
const LEVELS: readonly Level[] = [
  { name: "battery", title: "Battery", signal: "battery_percent", show: asPercent, stop: "min_battery_percent", resume: "resume_battery_percent", isMinimum: true },
  { name: "foreign_cpu", title: "CPU use by other programs", signal: "foreign_cpu_percent", show: asPercent, stop: "max_foreign_cpu_percent", isMinimum: false },
  { name: "cpu_pressure", title: "CPU pressure", signal: "cpu_pressure_percent", show: asPercent, stop: "max_cpu_pressure_percent", isMinimum: false },
  { name: "memory_pressure", title: "Memory pressure", signal: "memory_pressure_percent", show: asPercent, stop: "max_memory_pressure_percent", isMinimum: false },
  { name: "io_pressure", title: "I/O pressure", signal: "io_pressure_percent", show: asPercent, stop: "max_io_pressure_percent", isMinimum: false },
  { name: "temperature", title: "Temperature", signal: "temperature_c", show: (value) => `${decimal(value)} °C`, stop: "max_temperature_c", resume: "resume_temperature_c", isMinimum: false },
  { name: "memory", title: "Free memory", signal: "available_memory_bytes", show: bytes, stop: "min_free_memory_bytes", resume: "resume_free_memory_bytes", isMinimum: true },
  { name: "disk", title: "Free disk space", signal: "free_disk_bytes", show: bytes, stop: "min_free_disk_bytes", resume: "resume_free_disk_bytes", isMinimum: true },
];

/** A signal with the policy's levels for it, null if there are none. */
export interface Limited {
  title: string;
  signal: string;
  show: Show;
  stop: number | null;
  resume: number | null;
}

/** Signals that are numbers, in the order of the conditions. */
export function limitsOf(policy: Policy): Limited[] {
  const value = (name: string | undefined): number | null => {
    const set = name === undefined ? null : policy[name];
    return typeof set === "number" ? set : null;
  };
  const idleFrom = policy.require_idle === true ? Number(policy.idle_minutes) * 60 : null;
  return [
    ...LEVELS.map(({ title, signal, show, stop, resume }) => ({ title, signal, show, stop: value(stop), resume: value(resume) })),
    { title: "Idle time", signal: "user_idle_s", show: duration, stop: idleFrom, resume: null },
  ];
}

/** All conditions in a fixed order, the most looked-for first. */
export function conditionsOf(device: Device, policy: Policy): Condition[] {
  const blocking = new Set(device.blocked_by.map((each) => each.condition));
  const [battery, ...others] = LEVELS.map((level) => fromLevel(level, device, policy));
  const found = [power(device, policy), battery, saver(device, policy), idle(device, policy), ...others, ...byTime(device, policy)];
  return found
    .filter((each) => each !== undefined)
    .map((each) => ({ share: null, ...each, isBlocking: blocking.has(each.name) }));
}

type Draft = Omit<Condition, "isBlocking" | "share"> & { share?: number | null };

function fromLevel({ name, title, signal, show, stop, resume, isMinimum }: Level, device: Device, policy: Policy): Draft {
  const { value, note } = told(device.signals[signal], (raw) => show(Number(raw)));
  const limit = policy[stop];
  if (typeof limit !== "number") return { name, title, value, note, limit: null };
  const back = resume === undefined ? null : policy[resume];
  const until = typeof back === "number" && back !== limit ? `, resumes at ${show(back)}` : "";
  const raw = device.signals[signal]?.value;
  const share = typeof raw === "number" && !isMinimum ? Math.min(1, raw / limit) : null;
  return { name, title, value, note, limit: `${isMinimum ? "at least" : "at most"} ${show(limit)}${until}`, share };
}

function power(device: Device, policy: Policy): Draft {
  const read = told(device.signals.on_ac_power, (raw) => (raw === true ? "mains" : "battery"));
  return { name: "power", title: "Power", ...read, limit: policy.require_ac_power === true ? "mains" : null };
}

function saver(device: Device, policy: Policy): Draft {
  const read = told(device.signals.battery_saver, (raw) => (raw === true ? "on" : "off"));
  return { name: "battery_saver", title: "Battery saver", ...read, limit: policy.obey_battery_saver === true ? "off" : null };
}

function idle(device: Device, policy: Policy): Draft {
  const read = told(device.signals.user_idle_s, (raw) => duration(Number(raw)));
  const limit = policy.require_idle === true ? `at least ${duration(Number(policy.idle_minutes) * 60)}` : null;
  return { name: "user_idle", title: "Idle time", ...read, limit };
}

function byTime(device: Device, policy: Policy): Draft[] {
  const windows = Array.isArray(policy.windows) ? policy.windows.length : 0;
  const programs = Array.isArray(policy.blocking_processes) ? policy.blocking_processes.map(String) : [];
  const most = policy.max_minutes_per_day;
  const trained = device.trained_today_seconds;
  const daily: Draft = {
    name: "daily_limit",
    title: "Trained today",
    value: duration(trained),
    note: "",
    limit: typeof most === "number" ? `at most ${duration(most * 60)}` : null,
    share: typeof most === "number" && most > 0 ? Math.min(1, trained / (most * 60)) : null,
  };
  const clock = told(device.signals.local_time, (raw) => timeOfDay(String(raw)));
  const running = told(device.signals.running_processes, (raw) => (Array.isArray(raw) && raw.length > 0 ? raw.join(", ") : "none"));
  return [
    { name: "window", title: "Time on the device", ...clock, limit: windows > 0 ? `within ${windows === 1 ? "the training window" : `${windows} training windows`}` : null },
    { name: "processes", title: "Blocking programs", ...running, limit: programs.length > 0 ? `${programs.join(", ")} not running` : null },
    daily,
  ];
}

function told(signal: Signal | undefined, show: (raw: unknown) => string): Pick<Condition, "value" | "note"> {
  if (signal === undefined) return { value: null, note: "" };
  if (signal.value === null) return { value: null, note: signal.detail };
  return { value: show(signal.value), note: signal.source };
}

/** The time on the device's clock, which may differ from the browser's. */
function timeOfDay(time: string): string {
  return time.slice(11, 16);
}
