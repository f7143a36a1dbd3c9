import { hugePageOfResource } from '../huge-pages.ts';
import type { Container } from '../objects.ts';
import { compareQuantities, isQuantity, quantityToNumber } from '../quantity.ts';
import { forbidden, invalid, notSupported, required, type FieldPath, type Issue } from './issue.ts';

const RESOURCES: readonly string[] = ['cpu', 'memory'];

/** Of a container's requests and limits. */
export function resourceRules(container: Container, at: FieldPath): Issue[] {
  const issues: Issue[] = [];
  const { limits = {}, requests = {} } = container.resources ?? {};
  for (const [group, values] of Object.entries({ limits, requests })) {
    for (const [name, value] of Object.entries(values)) {
      const path = [...at, 'resources', group, name];
      const pageBytes = hugePageOfResource(name);
      if (pageBytes !== undefined) issues.push(...wholePages(path, value, { name, pageBytes }));
      else if (name === 'ephemeral-storage')
        issues.push(forbidden(path, 'not supported by Gantry: limits of disk use'));
      else if (!RESOURCES.includes(name)) issues.push(notSupported(path, name, RESOURCES));
      if (isQuantity(value) && compareQuantities(value, '0') < 0) {
        issues.push(invalid(path, value, 'must be greater than or equal to 0'));
      }
    }
  }
  for (const [name, request] of Object.entries(requests)) {
    const limit = limits[name];
    if (hugePageOfResource(name) !== undefined) {
      issues.push(...sameAsLimit(name, { request, limit }, [...at, 'resources']));
      continue;
    }
    if (limit === undefined || !isQuantity(limit) || !isQuantity(request)) continue;
    if (compareQuantities(request, limit) > 0) {
      const why = `must be less than or equal to ${name} limit of ${limit}`;
      issues.push(invalid([...at, 'resources', 'requests'], request, why));
    }
  }
  const names = [...Object.keys(limits), ...Object.keys(requests)];
  if (names.some((name) => hugePageOfResource(name) !== undefined) && !names.some((name) => RESOURCES.includes(name))) {
    issues.push(forbidden([...at, 'resources'], 'HugePages require cpu or memory'));
  }
  return issues;
}

function wholePages(
  path: FieldPath,
  value: string,
  { name, pageBytes }: { readonly name: string; readonly pageBytes: number },
): Issue[] {
  if (!isQuantity(value) || quantityToNumber(value) % pageBytes === 0) return [];
  return [invalid(path, value, `must be a multiple of the page size of ${name}`)];
}

/** Huge pages are never given to two. */
function sameAsLimit(
  name: string,
  { request, limit }: { readonly request: string; readonly limit: string | undefined },
  at: FieldPath,
): Issue[] {
  if (limit === undefined) {
    return [required([...at, 'limits', name], 'Limit must be set for non overcommitable resources')];
  }
  if (!isQuantity(request) || !isQuantity(limit) || compareQuantities(request, limit) === 0) return [];
  return [invalid([...at, 'requests'], request, `must be equal to ${name} limit of ${limit}`)];
}
