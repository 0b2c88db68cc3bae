// The hall, and what all pages of the shop ask for.

export const hall = [...'ABCDE'].flatMap(row =>
  [1, 2, 3, 4, 5, 6, 7, 8].map(number => row + number));

// The waiting room answers in place of the shop when the time here is over; its
// own page says what there is to say.
export function outside(answer) {
  if (answer.ok || answer.status === 409) return false;
  location.reload();
  return true;
}

export async function soldSeats() {
  const answer = await fetch('seats/', {headers: {Accept: 'application/json'}});

  if (outside(answer)) return new Promise(() => {});
  return new Set((await answer.json()).map(entry => entry.name));
}
